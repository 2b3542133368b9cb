"""`rag-metrics labels`: labels checked, moved, pooled, reviewed, compared, and questions asked."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from llama_index_rag_metrics.runtime.errors import InvalidInput

from . import options
from .commands import STDOUT, command, fail_if, labels, show, tell

_CHECK = "rag-metrics labels check eval/dataset.jsonl storage/"
_MOVE = "rag-metrics labels move eval/dataset.jsonl storage/ -o eval/moved.json"


@command(labels, "check", _CHECK, failed="some labels are wrong")
def run_check(
    dataset: options.DatasetArgument,
    corpus: options.Corpus = None,
    columns: options.Columns = None,
    match_on: options.MatchOn = "node_id",
    strict: options.Strict = False,
    html: options.Html = None,
    json: options.Json = None,
) -> None:
    """Check labels against what can be retrieved today, and list questions that are there twice."""
    from llama_index_rag_metrics import RetrievalDataset
    from llama_index_rag_metrics.labels import check_labels

    from .factories import passages_of

    questions = RetrievalDataset.load(dataset, columns=options.columns_of(columns))
    passages = passages_of("CORPUS", corpus, questions, match_on)
    findings = check_labels(questions, passages, match_on=match_on)
    show(findings, json, html)
    fail_if(findings.errors or (strict and len(findings)))


@command(labels, "move", _MOVE, failed="nothing was moved: every label is lost")
def run_move(
    dataset: options.DatasetArgument,
    new_nodes: Annotated[str, options.argument("NEW")],
    output: options.Output,
    columns: options.Columns = None,
    threshold: options.Threshold = 0.5,
    html: options.Html = None,
    json: options.Json = None,
) -> None:
    """Move labels to new nodes, after documents were split or ingested again; writes .json."""
    from llama_index_rag_metrics import RetrievalDataset
    from llama_index_rag_metrics.files.retrieval_dataset import check_ending
    from llama_index_rag_metrics.labels import move_labels
    from llama_index_rag_metrics.report.numbers import counted

    from .factories import passages_of

    check_ending(output)
    questions = RetrievalDataset.load(dataset, columns=options.columns_of(columns))
    moved = move_labels(questions, passages_of("NEW", new_nodes, questions), threshold=threshold)
    n_left = len(moved.findings) - len(moved.of("lost"))
    fail = moved.findings and not n_left
    if not fail:
        moved.dataset.save(output)
    show(moved, json, html)
    if not fail and json != STDOUT:
        tell(f"\n{output} has {counted(n_left, 'labelled passage', 'labelled passages')}.")
    fail_if(fail)


@command(labels, "pool", "rag-metrics labels pool a.run b.run -d data.jsonl -n 50 -o pool.jsonl")
def run_pool(
    runs: options.Runs,
    output: options.Output,
    qrels: options.Qrels = None,
    dataset: options.MaybeDataset = None,
    columns: options.Columns = None,
    depth: options.Depth = 10,
    n: options.MaybeNumber = None,
) -> None:
    """Choose what to label next, what the runs rank differently first; ranks are hidden in it."""
    from llama_index_rag_metrics.labels import pool

    from .evaluate import named_apart
    from .score import StoredFiles

    stored = StoredFiles(qrels, dataset, options.columns_of(columns), None)
    loaded = list(map(stored.run, runs))
    names = named_apart([run.name for run in loaded], runs)
    systems = dict(zip(names, loaded, strict=True))
    selection = pool(systems, stored.relevance, depth=depth, n=n, dataset=stored.dataset)
    selection.to_jsonl(output)
    show(selection, None)
    tell(f"\n{output} is written: rag-metrics labels review {quote(str(output))} -o judged.jsonl")


@command(labels, "review", "rag-metrics labels review pool.jsonl -o judged.jsonl")
def run_review(
    pool: Annotated[Path, options.argument("POOL", "What to judge, as `labels pool` writes it.")],
    output: options.Output,
    rubric: options.Rubric = None,
) -> None:
    """Write a page in which somebody judges a pool.

    It is one HTML file beside OUTPUT, without systems and ranks, and works offline: open it, grade
    by keyboard, and export as OUTPUT. If that exists, the page shows what is in it.
    """
    from llama_index_rag_metrics.labels import write_review_page

    target = output.with_suffix(".html")
    if target == output:
        raise InvalidInput("--output", str(output), "a name that ends in .jsonl")
    judgements = output if output.exists() else None
    write_review_page(pool, target, judgements=judgements, output=output.name, rubric=rubric)
    tell(f"Open {target} in a browser, and save its export as {output}.")


@command(labels, "agree", "rag-metrics labels agree anna.jsonl ben.jsonl")
def run_agree(
    first: Annotated[Path, options.argument("FIRST", "Judgements of one reviewer.")],
    second: Annotated[Path, options.argument("SECOND", "Judgements of another.")],
    html: options.Html = None,
    json: options.Json = None,
) -> None:
    """Say how far two reviewers agree, and list where they don't."""
    from llama_index_rag_metrics.labels import agreement

    show(agreement(first, second), json, html)


@command(labels, "ask", "rag-metrics labels ask storage/ --llm my_package:llm -o dataset.json")
def run_ask(
    nodes: Annotated[str, options.argument("NODES", "What is asked about, as for `check`.")],
    output: options.Output,
    llm: options.Llm = None,
    n: options.Number = 2,
    cache: options.Cache = None,
) -> None:
    """Let an LLM (else Settings.llm) write N questions about every passage, which is the label."""
    from llama_index.core.schema import TextNode

    from llama_index_rag_metrics import RetrievalDataset, generate_question_context_pairs
    from llama_index_rag_metrics.files.retrieval_dataset import check_ending

    from .factories import built, passages_of

    check_ending(output)
    nothing = RetrievalDataset({})
    model: Any = None
    if llm is not None:
        model = built("--llm", llm, nothing) or llm  # what made nothing is no LLM
    passages = passages_of("NODES", nodes, nothing)
    texts = [TextNode(id_=item, text=text) for item, text in passages.texts.items()]
    dataset = generate_question_context_pairs(
        texts, model, num_questions_per_chunk=n, cache=cache, show_progress=True
    )
    dataset.save(output)
    tell(f"{output} has {len(dataset.queries):,} questions about {len(texts):,} passages.")
    for note in dataset.notes:
        tell(f"  {note}")
