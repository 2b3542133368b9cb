// ---- one question, unfolded: what was expected and where it was lost; the rankings side by side
const OPEN = 3;
const LISTED = 5;
const LISTED_BELOW_CALLS = 2;
const RANKED = 20;
const MANY_SYSTEMS = 4;

const number = (value) => (value == null ? NONE : value.toFixed(4));
const milliseconds = (seconds) => {
  const [amount, unit] = seconds >= 1 ? [seconds, "s"] : [seconds * 1e3, "ms"];
  return `${amount.toFixed(amount < 10 ? 2 : amount < 100 ? 1 : 0)} ${unit}`;
};
const counted = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// a question as a metric's matcher sees it; null where no rankings are known
const questionOf = async (index, at, metric) => {
  const rankings = `rankings-${Math.floor(at / index.perChunk)}`;
  if (!carrier(rankings)) return null;
  const { answers, seen } = (await chunk(rankings))[at % index.perChunk];
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
    textOf: text,
    wanted: ids.map((id, position) => ({
      id,
      grade: wanted.grades[position],
      text: text(wanted.texts, position) ?? text(wanted.passages, position),
      matched: text(wanted.passages, position) ?? text(wanted.texts, position),
      place: wanted.places?.[position],
      need: wanted.needs?.[position] ?? position,
    })),
    answers: answers.map((answer, system) => answer && { ...answer, ...judged[system] }),
    idsInView: [...ids, ...[...answers, ...calls].flatMap((each) => each?.ids ?? [])],
  };
};

// ranks as metrics count them: of what each item stands for; what repeats counts once
const namesOf = ({ ids, standsFor }, position) => standsFor?.[position] ?? [ids[position]];
const knownPlaces = new WeakMap();
const covered = (answer) => {
  if (!answer) return new Map();
  if (!knownPlaces.has(answer)) knownPlaces.set(answer, placesOf(answer));
  return knownPlaces.get(answer);
};
const placesOf = (answer) => {
  const [places, paid] = [new Map(), new Set()];
  let tokens = 0;
  answer.ids.forEach((id, position) => {
    if (!paid.has(id)) tokens += answer.tokens?.[position] ?? 0;
    paid.add(id);
    for (const name of namesOf(answer, position)) {
      if (!places.has(name)) places.set(name, { rank: places.size + 1, position, tokens });
    }
  });
  return places;
};
// of each retrieved item; null where all that it stands for came before
const ranksOf = (answer) => {
  const ranks = answer.ids.map(() => null);
  for (const { rank, position } of covered(answer).values()) ranks[position] ??= rank;
  return ranks;
};

// where a system has a passage, in words; whether its metric reads that far
const standing = (index, { answers, cutoff }, system, id) => {
  const answer = answers[system];
  if (!answer) return ["no ranking known", false];
  const found = covered(answer).get(id);
  if (!found) {
    if (answer.error != null) return ["failed", false];
    const before = index.stages ? answers.slice(0, system).map((each) => covered(each).get(id)) : [];
    const last = before.findLastIndex(Boolean);
    const same = answer.sameText?.[id];
    if (last < 0 && same != null) {
      const rank = ranksOf(answer)[same] ?? same + 1;
      return [`rank ${rank.toLocaleString("en")}, under another id (${brief(answer.ids[same])})`, false];
    }
    if (last < 0) return ["never retrieved", false];
    return [`dropped by ${index.systems[last + 1]} (was ${before[last].rank})`, false];
  }
  const place = `rank ${found.rank.toLocaleString("en")}`;
  if (cutoff?.unit === "items" && found.rank > cutoff.at) {
    return [`${place}, below the cutoff ${cutoff.at.toLocaleString("en")}`, false];
  }
  if (cutoff?.unit === "tokens" && answer.tokens && found.tokens > cutoff.at) {
    return [`over the budget of ${cutoff.at.toLocaleString("en")} tokens`, false];
  }
  return [place, true];
};

// of each expected passage: where every system has it, and whether all missed it. One passage of a
// need is enough
const expectedOf = (index, question) => {
  const rows = question.wanted.map((item) => {
    const places = index.systems.map((_, system) => standing(index, question, system, item.id));
    return { ...item, places };
  });
  const meets = (system, need) => rows.some((row) => row.need === need && row.places[system][1]);
  for (const row of rows) {
    row.met = index.systems.map((_, system) => meets(system, row.need));
    const words = new Map();
    row.places.forEach(([place, isFound], system) => {
      if (row.met[system] && !isFound) return;
      words.set(place, [...(words.get(place) ?? []), index.systems[system]]);
    });
    const n = index.systems.length;
    row.where = [...words].map(([place, systems]) => [place, systems.length === n ? "" : systems.join(", ")]);
    row.isMissed = !row.met.some(Boolean);
  }
  const nMet = (row) => row.met.filter(Boolean).length;
  return rows.map((row, position) => [row, position])
    .sort(([one, at], [other, beside]) => nMet(one) - nMet(other) || one.need - other.need || at - beside)
    .map(([row]) => row);
};

// ---- rows
const tag = (look, words, title) => make("span", { class: look, title }, words);
const gradeOf = (grade, why) => {
  if (grade == null) return tag("grade none", "unlabelled");
  if (grade < 1) return tag("grade none", `grade ${grade}`);
  return tag("grade", `hit${why ? ` by ${why}` : ""}, grade ${grade}`);
};
const wantedGrade = (grade) => tag(grade > 1 ? "grade" : "grade none", `grade ${grade}`);
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
const expectedSide = (view, index, question) => {
  const expected = expectedOf(index, question);
  if (!expected.length) return null;
  let missed = 0;
  const rows = expected.map((item, position) => {
    const isAlternative = position > 0 && expected[position - 1].need === item.need;
    if (item.isMissed) missed += 1;
    const where = item.where.map(([place, systems]) =>
      tag(item.isMissed ? "where lost" : "where", systems ? `${systems}: ${place}` : place));
    const tags = [wantedGrade(item.grade), item.place ? tag("where", item.place) : null, ...where];
    const look = item.isMissed ? "missed" : null;
    return row(view, { id: item.id, text: item.text, rank: isAlternative ? "or" : "", tags, look, open: item.isMissed && missed <= OPEN });
  });
  const needs = new Set(expected.map(({ need }) => need));
  const lost = new Set(expected.filter(({ isMissed }) => isMissed).map(({ need }) => need));
  const by = index.systems.length > 1 ? "missed by every system" : "missed";
  const heading = `Expected passages${lost.size ? `: ${lost.size} of ${needs.size} ${by}` : ""}`;
  const most = hasCalls(question) ? LISTED_BELOW_CALLS : LISTED;
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
  const score = tag("quiet", number(question.scores[system]));
  const latency = answer?.latency == null ? null : tag("quiet", milliseconds(answer.latency));
  const head = make("div", {}, make("h4", { "aria-level": 3 }, swatch, index.systems[system], score, latency));
  if (!answer) head.append(make("p", { class: "quiet" }, "no ranking known"));
  else head.append(...failureOf(answer));
  if (!answer) return make("div", { class: "side" }, head);
  const [isPair, isMany] = [answers.length === 2, answers.length > MANY_SYSTEMS];
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
    const names = namesOf(answer, position);
    const isItself = names.length === 1 && names[0] === id;
    const why = answer.why?.[position] ?? "id";
    const alike = Object.entries(answer.sameText ?? {}).filter(([, at]) => at === position);
    const tags = [
      alike.length ? make("span", { class: "names" }, "same text as ", ...alike.map(([known]) => view.id(known))) : null,
      isItself ? null : make("span", { class: "names" }, "= ", ...names.map(view.id)),
      isAgain || !wanted.length ? null : gradeOf(grade, why),
      move,
    ];
    const isBelow = question.cutoff?.unit === "items" && rank > question.cutoff.at;
    const looks = [!isAgain && grade >= 1 && "hit", isOnly && "only", isBelow && "below"];
    const look = looks.filter(Boolean).join(" ");
    const matched = why === "id" ? null : texts.get(names.find((name) => texts.get(name)));
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
    const [here, there] = [covered(answer), covered(beside)];
    const dropped = wanted.filter(({ id }) => there.has(id) && !here.has(id));
    const lines = dropped.map((item) => row(view, {
      id: item.id, text: item.text, rank: there.get(item.id).rank, tags: [wantedGrade(item.grade), tag("move dropped", "dropped")],
    }));
    if (lines.length) rest.append(...listOf(lines, make("h5", { "aria-level": 4 }, "Relevant, dropped")));
  }
  if (!answer.calls) return make("div", { class: "side" }, head, ...listOf(rows), rest);
  const together = answer.ids.length
    ? [fold([`${counted(answer.ids.length, "passage", "passages")} together, as scored`], (details) => details.append(...listOf(rows), rest))]
    : [];
  const calls = make("div", { class: "calls" }, ...callsOf(view, question, answer.calls), ...together);
  return make("div", { class: "side" }, head, calls);
};

const outcomeOf = ({ ids, grades, isNew, error }) => {
  if (error != null || !ids.length) return "";
  const nOf = (isWanted) => grades.filter((grade, at) => grade >= 1 && Boolean(isNew[at]) === isWanted).length;
  const words = [[nOf(true), "relevant and new"], [nOf(false), "relevant again"]];
  const known = words.filter(([n]) => n).map(([n, look]) => `${n} ${look}`);
  return ` → ${counted(ids.length, "passage", "passages")}, ${known.join(", ") || "none relevant"}`;
};
const callsOf = (view, question, calls) => {
  if (!calls.length) return [make("p", { class: "quiet" }, "no search was made")];
  return calls.flatMap((call, at) => {
    const details = [call.askedBy, call.latency == null ? "" : milliseconds(call.latency)].filter(Boolean);
    const rows = call.ids.map((id, position) => {
      const [grade, isNew] = [call.grades[position], call.isNew[position]];
      const isHit = grade >= 1;
      const tags = [isHit ? tag("grade", `relevant ${isNew ? "and new" : "again"}, grade ${grade}`) : gradeOf(grade)];
      const look = isHit && isNew ? "hit" : null;
      return row(view, { rank: position + 1, id, text: question.textOf(call.texts, position), tags, look });
    });
    const asked = make("p", { class: "call" }, `${at + 1}. `, make("b", {}, `“${call.query}”`), outcomeOf(call), tag("quiet", ` ${details.join(" ")}`));
    return [asked, ...failureOf(call), ...listOf(rows)];
  });
};

// what to do where the texts are there under other ids
const remedy = () => [
  make("p", { class: "quiet" }, "The labels name other ids than the index. Evaluate with matcher='text', or move the labels:"),
  commandOf("rag-metrics labels move dataset.json storage/ -o moved.json"),
];

// what isn't labelled counts as not relevant: how to choose what to label
const POOLED = /^(ndcg@\d+|precision@\d+|recall(@\d+)?|ap(@\d+)?)$/;
const labelling = (index, { answers, wanted }, metric) => {
  const ids = answers.flatMap((answer) => answer?.ids.filter((_, position) => answer.grades?.[position] == null) ?? []);
  const n = new Set(ids).size;
  if (!n || !wanted.length) return null;
  return fold([`Label the ${counted(n, "unlabelled passage", "unlabelled passages")}`], (details) => {
    const files = index.systems.map((name) => `${name.replace(/[^\p{L}\p{N}.-]+/gu, "-").replace(/^-+/, "") || "system"}.run`);
    const name = index.metrics[metric];
    const chosen = POOLED.test(name) ? `--metric "${name}" ` : "";
    const command = `rag-metrics labels pool ${files.join(" ")} --dataset dataset.json ${chosen}--output pool.jsonl`;
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
  const expected = [expectedSide(view, index, question)].filter(Boolean);
  const came = make("div", { class: "sides" }, ...sides);
  place.append(
    make("p", { class: "actions" },
      copyButton("Copy link", () => linkTo(index, at)),
      copyButton("Copy as Markdown", () => questionMarkdown(index, question))),
    ...(hasCalls(question) ? [came, ...expected] : [...expected, came]),
    ...(question.answers.some((answer) => answer?.sameText) ? remedy() : []),
    ...[labelling(index, question, metric)].filter(Boolean),
    ...(index.remarks[at] ?? []).map((remark) => make("p", { class: "quiet" }, remark)),
  );
  return place;
};
