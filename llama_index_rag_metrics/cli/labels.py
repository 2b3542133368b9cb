"""`rag-metrics labels`: checks of labels, and what is done about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llama_index_rag_metrics.cli import options
from llama_index_rag_metrics.cli.exit_codes import LABELS_WRONG, check_files, exit_codes, exit_words
from llama_index_rag_metrics.cli.labels_review import run_agree, run_review
from llama_index_rag_metrics.cli.showing import show
from llama_index_rag_metrics.labels import Strategy
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import check_share

labels = typer.Typer(
    name="labels",
    help="Check labels, move them to new nodes, add to them.",
    no_args_is_help=True,
)


@labels.command("check", epilog=exit_words("labels check"))
def run_check(
    dataset: options.Dataset,
    corpus: options.Corpus = None,
    split: options.Split = None,
    match_on: options.MatchOn = "node_id",
    alike: Annotated[
        float,
        typer.Option("--alike", help="How alike near-duplicates are, from 0 to 1."),
    ] = 0.8,
    giveaway: Annotated[
        float,
        typer.Option(
            "--giveaway", help="How many of a question's words its passage may share, from 0 to 1."
        ),
    ] = 0.9,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if there are warnings, too.")
    ] = False,
    form: options.Form = "table",
    json: Annotated[
        Path | None, options.file("--json", help="Write every finding, as a list of objects.")
    ] = None,
    html: options.Html = None,
) -> None:
    """Check labels against what can be retrieved today.

    Lists passages that are gone, changed, alike or unlabelled, and labels that contradict each
    other or that the question gives away.
    """
    with exit_codes("nothing was written", run_check):
        from llama_index_rag_metrics.cli.retriever_factories import passages_of
        from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
        from llama_index_rag_metrics.labels.checking import check_labels

        check_share("alike", alike)
        check_share("giveaway", giveaway)
        check_files({"--json": json, "--html": html}, [dataset, Path(corpus) if corpus else None])
        questions = RetrievalDataset.load(dataset, split=split)
        findings = check_labels(
            questions,
            None if corpus is None else passages_of("CORPUS", corpus, questions, match_on),
            match_on=match_on,
            alike=alike,
            giveaway=giveaway,
        )
        show(findings, form, json=json, html=html)
    if findings.errors or (strict and len(findings)):
        raise typer.Exit(LABELS_WRONG)


@labels.command("move", epilog=exit_words("labels move"))
def run_move(
    dataset: options.Dataset,
    new_nodes: Annotated[
        str, options.argument("NEW", f"What can be retrieved now: {options.PASSAGES}")
    ],
    output: options.NewDataset,
    split: options.Split = None,
    threshold: Annotated[
        float,
        typer.Option("--threshold", help="Share of a label's text that a node must hold, 0 to 1."),
    ] = 0.5,
    form: options.Form = "table",
    json: Annotated[
        Path | None, options.file("--json", help="Write what became of every label.")
    ] = None,
    html: options.Html = None,
) -> None:
    """Move labels to new nodes.

    For documents that were split or ingested again.
    """
    with exit_codes("nothing was written", run_move):
        from llama_index_rag_metrics.cli.retriever_factories import passages_of
        from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset, check_ending
        from llama_index_rag_metrics.labels.moving import move_labels

        check_share("threshold", threshold)
        check_files({"--output": output, "--json": json, "--html": html}, [Path(new_nodes)])
        check_ending(output)
        questions = RetrievalDataset.load(dataset, split=split)
        passages = passages_of("NEW", new_nodes, questions)
        moved = move_labels(questions, passages, threshold=threshold)
        moved.dataset.save(output)
        show(moved, form, json=json, html=html)
    if moved.of("lost"):
        raise typer.Exit(LABELS_WRONG)


@labels.command("remember", epilog=exit_words("labels remember"))
def run_remember(
    dataset: options.Dataset,
    output: options.NewDataset,
    corpus: options.Corpus = None,
    split: options.Split = None,
    match_on: options.MatchOn = "node_id",
    keep_corpus: Annotated[
        bool,
        typer.Option(
            "--keep-corpus/--drop-corpus", help="Whether the new dataset has the old one's corpus."
        ),
    ] = True,
) -> None:
    """Store hashes of the labelled texts in the dataset.

    With them `labels check` notices changed texts without a corpus.
    """
    with exit_codes("nothing was written", run_remember):
        from llama_index_rag_metrics.cli.retriever_factories import passages_of
        from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset, check_ending
        from llama_index_rag_metrics.labels.checking import remember_texts

        check_files({"--output": output}, [Path(corpus) if corpus else None])
        check_ending(output)
        questions = RetrievalDataset.load(dataset, split=split)
        remembered = remember_texts(
            questions,
            None if corpus is None else passages_of("CORPUS", corpus, questions, match_on),
            match_on=match_on,
            keep_corpus=keep_corpus,
        )
        remembered.save(output)
        n = counted(len(remembered.text_hashes), "passage", "passages")
        typer.echo(f"{output}: hashes of {n}")


@labels.command("pool", epilog=exit_words("labels pool"))
def run_pool(
    runs: Annotated[list[Path], options.argument("RUN", "Stored rankings, as `score` takes them.")],
    output: Annotated[
        Path,
        options.output(
            "What to judge: JSON lines of query_id, query, doc_id and text, which say nothing of "
            "systems and ranks."
        ),
    ],
    qrels: Annotated[
        Path | None,
        typer.Option(
            "--qrels", help="The judgements so far.", show_default="the labels of the dataset"
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option("--dataset", "-d", help="The dataset that holds the questions and the texts."),
    ] = None,
    n: Annotated[
        int | None, options.count("-n", help="How many items to write.", show_default="all")
    ] = None,
    metric: Annotated[
        str,
        typer.Option("--metric", "-m", help="ndcg@k, precision@k, recall, recall@k, ap or ap@k."),
    ] = "ndcg@10",
    strategy: Annotated[
        Strategy,
        typer.Option(
            "--strategy", help="What comes first: what changes verdicts most, or ranks highest."
        ),
    ] = "decisive",
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", help="Compare every other run with this one.", show_default="all of them"
        ),
    ] = None,
    level: Annotated[
        float,
        typer.Option(
            "--level",
            help="A verdict is decided if further judgements turn it with less than this chance.",
        ),
    ] = 0.05,
    form: options.Form = "table",
    html: options.Html = None,
) -> None:
    """Choose what to judge next, and say whether enough is judged."""
    with exit_codes("nothing was written", run_pool):
        from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
        from llama_index_rag_metrics.files.runs.read_runs import read_run
        from llama_index_rag_metrics.labels.pooling import check_request, pool
        from llama_index_rag_metrics.runtime.errors import InvalidInput

        check_request(metric, n=n, strategy=strategy, level=level)
        check_files({"--output": output, "--html": html}, [*runs, qrels, dataset])
        loaded = [read_run(path) for path in runs]
        for path, run in zip(runs, loaded, strict=True):
            if not run:
                raise InvalidInput("runs", str(path), "files with at least one ranking")
        names = [run.name for run in loaded]
        if len(set(names)) < len(names):
            names = list(map(str, runs))
        chosen = pool(
            dict(zip(names, loaded, strict=True)),
            qrels,
            n=n,
            metric=metric,
            strategy=strategy,
            baseline=baseline,
            level=level,
            dataset=None if dataset is None else RetrievalDataset.load(dataset),
        )
        chosen.to_jsonl(output)
        if html is not None:
            chosen.to_html(html)
        show(chosen, form)


labels.command("review", epilog=exit_words("labels review"))(run_review)
labels.command("agree", epilog=exit_words("labels agree"))(run_agree)
