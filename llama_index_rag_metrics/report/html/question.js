// ---- one question, unfolded: what is relevant and where it was lost; the rankings side by side
const OPEN = 3;
const RANKED = 20;

const number = (value, digits) => (value == null ? NONE : value.toFixed(digits));
const counted = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// a question as a metric's matcher sees it; null where no rankings are known
const questionOf = async (index, at, metric) => {
  const rankings = `rankings-${Math.floor(at / index.perChunk)}`;
  if (!carrier(rankings)) return null;
  const { answers, seen, told } = (await chunk(rankings))[at % index.perChunk];
  const way = told[index.wayOfMetric[metric]]; // or the position of what is equal
  const [where, why] = Number.isInteger(way) ? told[way] : way;
  const { wanted, answers: judged } = seen[index.matcherOfMetric[metric]];
  const calls = answers.flatMap((answer) => answer?.calls ?? []);
  const numbers = [...answers, ...calls].flatMap((each) => each?.texts ?? []);
  const texts = new Map();
  for (const text of new Set([...numbers, ...(wanted.texts ?? []), ...(wanted.passages ?? [])])) {
    texts.set(text, await textAt(index, text));
  }
  const text = (column, position) => texts.get(column?.[position] ?? null) ?? null;
  const ids = wanted.ids ?? [];
  return {
    id: index.ids[at],
    text: index.queries[at],
    cutoff: index.cutoffs[metric] ?? null,
    scores: index.scores[metric].map((column) => column[at]),
    digits: index.digits[metric][at],
    textOf: text,
    where,
    why,
    wanted: ids.map((id, position) => ({
      id,
      grade: wanted.grades[position],
      text: text(wanted.texts, position) ?? text(wanted.passages, position),
      matched: text(wanted.passages, position) ?? text(wanted.texts, position),
      place: wanted.places?.[position],
      need: wanted.needs?.[position] ?? position,
    })),
    answers: answers.map((answer, system) => answer && { ...answer, ...judged[system], calls: callsOf(answer, judged[system]) }),
    idsInView: [...ids, ...[...answers, ...calls].flatMap((each) => each?.ids ?? [])],
  };
};
const callsOf = (answer, judged) => answer.calls?.map((call, at) => ({ ...call, ...judged.calls[at] }));

// by rank, as the metric counts; null where an item counts at an earlier rank
const ranksOf = ({ ids, ranks }) => ranks ?? ids.map((_, position) => position + 1);

const [MET, MISSED, ELSEWHERE] = [0, 1, 2];
// of each relevant passage: where the systems have it, and whether it was missed; in the order given.
// One passage of a need is enough: the best placed comes first, and has the places
const labelledOf = ({ wanted, where }) => where.flatMap(([need, loss, places, best = 0]) => {
  const items = wanted.filter((item) => item.need === need);
  return [items[best], ...items.filter((_, position) => position !== best)].map((item, position) => ({
    ...item, isMissed: loss > MET, where: position ? [] : places, isAlternative: position > 0,
  }));
});

// ---- rows
const tag = (look, words, title) => make("span", { class: look, title }, words);
const gradeOf = (grade, why) => {
  if (grade == null) return tag("grade none", "unlabelled");
  const hit = why === "id" ? "hit" : `hit by ${why}`;
  return why ? tag("grade", `${hit}, grade ${grade}`) : tag("grade none", `grade ${grade}: not relevant`);
};
const wantedGrade = (grade, isMissed) => (grade ? tag(isMissed ? "grade none" : "grade", `grade ${grade}`) : null);
const moveOf = (rank, before, name) => {
  if (before === rank) return tag("move", "=", `also rank ${before} of ${name}`);
  const look = before > rank ? "up" : "down";
  return tag(`move ${look}`, `${before > rank ? "↑" : "↓"}${Math.abs(before - rank)}`, `rank ${before} of ${name}`);
};

// a passage in one line; its text below, which `open` shows at once
const row = (view, { rank, id, text, matched, tags, look, open }) => {
  const mark = (words) => marked(words, view.asked, matched?.text);
  const { excerpt, rest, isWhole } = text ? excerptOf(text) : { isWhole: true };
  const line = make("span", { class: "line" },
    tag("rank", rank ?? ""),
    make("span", { class: "passage" },
      excerpt ? make("span", { class: rest ? "excerpt title" : "excerpt" }, ...mark(excerpt)) : null,
      make("span", { class: "tags" }, view.id(id), ...tags)));
  if (isWhole) return make("li", { class: look }, line);
  const details = fold([line], (place) => place.append(...wholeText(text, rest ?? text.text, mark)));
  details.open = Boolean(open);
  return make("li", { class: look }, details);
};
const listOf = (rows, ...heading) => [
  ...heading,
  make("ol", { class: "ranking" }, ...rows),
];

const hasCalls = ({ answers }) => answers.some((answer) => answer?.calls);
const lossesOf = ({ where }, by) => {
  const kinds = [[MISSED, by], [ELSEWHERE, `came ${RULES.otherId}`]];
  const counts = kinds.map(([kind, how]) => [where.filter(([, loss]) => loss === kind).length, how]);
  return counts.filter(([n]) => n).map(([n, how]) => `${n} of ${where.length} ${how}`).join(", ");
};
const labelledSide = (view, index, question) => {
  const labelled = labelledOf(question);
  if (!labelled.length) return null;
  let missed = 0;
  const rows = labelled.map((item) => {
    if (item.isMissed) missed += 1;
    const where = item.where.map(([place, systems]) =>
      tag(item.isMissed ? "where lost" : "where", systems ? `${systems}: ${place}` : place));
    const tags = [wantedGrade(item.grade, item.isMissed), item.place ? tag("where", item.place) : null, ...where];
    const look = item.isMissed ? "missed" : null;
    return row(view, { id: item.id, text: item.text, rank: item.isAlternative ? "or" : "", tags, look, open: item.isMissed && missed <= OPEN });
  });
  const by = index.systems.length > 1 && !index.stages ? `missed by every ${index.ofRuns ? "run" : "system"}` : "missed";
  const heading = ["Relevant passages", lossesOf(question, by)].filter(Boolean).join(": ");
  const most = hasCalls(question) ? RULES.listedBelowCalls : RULES.listed;
  const side = make("div", { class: "side relevant" }, ...listOf(rows.slice(0, most), make("h4", { "aria-level": 3 }, heading)));
  if (rows.length > most) {
    side.append(fold([`${rows.length - most} more`], (details) => details.append(...listOf(rows.slice(most)))));
  }
  return side;
};

const failureOf = ({ ids, error }) => {
  if (error == null && ids.length) return [];
  return [make("p", { class: "failure" }, error == null ? "nothing retrieved" : `failed: ${error}`)];
};

const sideOf = (view, index, question, system) => {
  const { answers, wanted } = question;
  const answer = answers[system];
  const swatch = tag("swatch", "");
  swatch.style.background = index.colours[system % index.colours.length];
  const score = tag("quiet", number(question.scores[system], question.digits));
  const latency = answer?.latency == null ? null : tag("quiet", answer.latency);
  const head = make("div", {}, make("h4", { "aria-level": 3 }, swatch, index.systems[system], score, latency));
  if (!answer) head.append(make("p", { class: "quiet" }, index.ofRuns && !system ? "mean of the runs" : "no ranking known"));
  else head.append(...failureOf(answer));
  if (!answer) return make("div", { class: "side" }, head);
  const [isPair, isMany] = [answers.length === 2, answers.length > RULES.abreast];
  const other = system > 0 ? (index.stages ? system - 1 : index.compared || isPair ? 0 : null) : isPair ? 1 : null;
  const isComparable = other != null && answers[other]?.ids.length && answer.ids.length;
  const beside = isComparable ? answers[other] : null; // else everything would be new, or dropped
  const before = beside && new Map(ranksOf(beside).map((rank, position) => [beside.ids[position], rank]).reverse());
  const ranks = ranksOf(answer);
  const texts = new Map(wanted.map((item) => [item.id, item.matched]));
  const rowOf = (id, position) => {
    const [rank, grade] = [ranks[position], answer.grades?.[position] ?? null];
    const isAgain = rank == null;
    const isOnly = before && !isAgain && !before.has(id);
    const move = isAgain ? tag("move", "again", "counts once")
      : isOnly ? tag("move only", isPair ? "only here" : "new", `not retrieved by ${index.systems[other]}`)
      : before?.get(id) && system > 0 ? moveOf(rank, before.get(id), index.systems[other]) : null;
    const names = answer.standsFor?.[position] ?? [];
    const why = answer.why?.[position] ?? null;
    const alike = Object.entries(answer.sameText ?? {}).filter(([, at]) => at === position);
    const tags = [
      alike.length ? make("span", { class: "names" }, "same text as ", ...alike.map(([known]) => view.id(known))) : null,
      names.length ? make("span", { class: "names" }, "is ", ...names.map(view.id)) : null,
      isAgain || !wanted.length ? null : gradeOf(grade, why),
      move,
    ];
    const isBelow = question.cutoff?.unit === "items" && rank > question.cutoff.at;
    const looks = [!isAgain && why && "hit", isOnly && "only", isBelow && "below"];
    const look = looks.filter(Boolean).join(" ");
    const matched = !why || why === "id" ? null : texts.get(names.find((name) => texts.get(name)));
    const open = position < (isMany ? 1 : OPEN);
    const text = question.textOf(answer.texts, position);
    return row(view, { rank, id, text, matched, tags, look: look || null, open });
  };
  const [rest, most] = [make("div", {}), isMany ? RANKED / 2 : RANKED];
  const rows = answer.ids.slice(0, most).map(rowOf);
  const more = answer.ids.slice(most);
  if (more.length) {
    rest.append(fold([`${more.length.toLocaleString("en")} more`], (details) =>
      details.append(...listOf(more.map((id, at) => rowOf(id, at + most))))));
  }
  if (before && system > 0) {
    const [here, there] = [answer.found ?? {}, beside.found ?? {}];
    const dropped = labelledOf(question).filter(({ need, isAlternative }) => need in there && !(need in here) && !isAlternative);
    const lines = dropped.map((item) => row(view, {
      id: item.id, text: item.text, rank: there[item.need], tags: [wantedGrade(item.grade, true), tag("move dropped", "dropped")],
    }));
    if (lines.length) rest.append(...listOf(lines, make("h5", { "aria-level": 4 }, "Relevant, dropped")));
  }
  if (!answer.calls) return make("div", { class: "side" }, head, ...listOf(rows), rest);
  const together = answer.ids.length
    ? [fold([`${counted(answer.ids.length, "passage", "passages")} together, as scored`], (details) => details.append(...listOf(rows), rest))]
    : [];
  const calls = make("div", { class: "calls" }, ...callsSide(view, question, answer.calls), ...together);
  return make("div", { class: "side" }, head, calls);
};

const callsSide = (view, question, calls) => {
  if (!calls.length) return [make("p", { class: "quiet" }, "no search was made")];
  return calls.flatMap((call, at) => {
    const details = [call.askedBy, call.latency].filter(Boolean);
    const rows = call.ids.map((id, position) => {
      const [grade, isHit, isNew] = [call.grades?.[position], call.why?.[position], call.isNew[position]];
      const tags = [isHit ? tag("grade", `relevant ${isNew ? "and new" : "again"}, grade ${grade}`) : gradeOf(grade)];
      const look = isHit && isNew ? "hit" : null;
      return row(view, { rank: position + 1, id, text: question.textOf(call.texts, position), tags, look });
    });
    const asked = make("p", { class: "call" }, `${at + 1}. `, make("b", {}, `“${call.query}”`), ` → ${call.outcome}`, tag("quiet", ` ${details.join(" ")}`));
    return [asked, ...listOf(rows)];
  });
};

// what to do where the texts are there under other ids
const remedy = () => [
  make("p", { class: "quiet" }, `The labels name other ids than the index. ${RULES.remedy}`),
  commandOf(RULES.move),
];

// what isn't labelled counts as not relevant: how to choose what to label
const labelling = (index, { answers, wanted }) => {
  const ids = answers.flatMap((answer) => answer?.ids.filter((_, position) => answer.grades?.[position] == null) ?? []);
  const n = new Set(ids).size;
  if (!n || !wanted.length) return null;
  return fold([`Label the ${counted(n, "unlabelled passage", "unlabelled passages")}`], (details) => {
    const files = index.systems.map((name) => `${name.replace(/[^\p{L}\p{N}.-]+/gu, "-").replace(/^-+/, "") || "system"}.run`);
    const command = `rag-metrics labels pool ${files.join(" ")} --dataset dataset.json --output pool.jsonl`;
    const first = "Unlabelled passages count as not relevant. This chooses those to label, from stored rankings:";
    const second = `write_run(results.run, "${files[0]}") stores rankings.`;
    details.append(make("p", { class: "quiet" }, first), commandOf(command), make("p", { class: "quiet" }, second));
  });
};

const unfolded = async (index, at, metric) => {
  const place = make("div", { class: "unfolded" });
  const question = await questionOf(index, at, metric);
  if (!question) {
    place.append(make("p", { class: "quiet" }, "Bare scores have no rankings."));
    return place;
  }
  const view = { asked: askedWords(question.text), id: shortIds(question.idsInView) };
  const sides = index.systems.map((_, system) => sideOf(view, index, question, system));
  const longest = Math.max(...sides.map((side) => side.querySelector(":scope > .ranking")?.children.length ?? 0));
  for (const side of sides) side.style.setProperty("--rows", longest);
  const labelled = [labelledSide(view, index, question)].filter(Boolean);
  const came = make("div", { class: "sides" }, ...sides);
  const legend = make("p", { class: "quiet" }, make("mark", { class: "legend" }, "marked"), ": words of the question");
  place.append(
    ...question.why.map((line) => make("p", { class: "why" }, line)),
    make("p", { class: "actions" },
      copyButton("Copy link", () => linkTo(index, at)),
      copyButton("Copy as Markdown", () => questionMarkdown(index, question))),
    ...(hasCalls(question) ? [make("p", { class: "quiet" }, "The searches in order, then the relevant passages."), came, ...labelled] : [...labelled, came]),
    ...(view.asked.size ? [legend] : []),
    ...(question.answers.some((answer) => answer?.sameText) ? [commandOf(RULES.move)] : []),
    ...[labelling(index, question)].filter(Boolean),
    ...(index.remarks[at] ?? []).map((remark) => make("p", { class: "quiet" }, remark)),
  );
  return place;
};
