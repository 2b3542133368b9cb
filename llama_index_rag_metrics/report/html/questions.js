// ---- the table of all questions: sorted, searched, filtered
const PAGE = 25;
const PRINTED = 500;
const LABELS = {
  failed: "failed",
  empty: "nothing retrieved",
  unanswerable: "no known relevant passage",
  unjudged: "unlabelled",
  elsewhere: `relevant text ${RULES.otherId}`,
};
const toCheck = (index) => ({
  failed: new Set(index.failed.flat()),
  empty: new Set(index.empty.flat()),
  unanswerable: new Set(index.unanswerable),
  unjudged: new Set(index.unjudged),
  elsewhere: new Set(index.lost[index.wayOfMetric[index.shown]][RULES.otherId]),
});
const signed = (value, digits) => {
  if (value == null) return NONE;
  if (Math.abs(value) < 0.00005) return "0";
  return (value > 0 ? "▲ " : "▼ ") + Math.abs(value).toFixed(digits);
};

// questions by the words of what is asked, and of each passage; passages are unpacked for the first
// search, and looked through one chunk after another
const searchOf = (index) => {
  const asked = index.ids.map((id, at) => `${index.queries[at]}\n${id}`.toLowerCase());
  const rows = async function* rankings() {
    for (let first = 0; carrier(`rankings-${first / index.perChunk}`); first += index.perChunk) {
      const questions = await chunk(`rankings-${first / index.perChunk}`);
      for (let at = 0; at < questions.length; at += 1) yield [first + at, questions[at]];
    }
  };
  const holds = (words) => (text) => words.every((word) => text.includes(word));
  const wordsOfSearch = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  return {
    inQuestions(text) {
      const found = holds(wordsOfSearch(text));
      return new Set(asked.flatMap((each, at) => (found(each) ? [at] : [])));
    },
    async inPassages(text, isStale) {
      const found = holds(wordsOfSearch(text));
      const texts = new Set();
      for (let part = 0; part < index.textStarts.length; part += 1) {
        const kept = await chunk(`texts-${part}`);
        if (isStale()) return null;
        kept.forEach((each, at) => {
          if (found((typeof each === "string" ? each : each[0]).toLowerCase())) texts.add(index.textStarts[part] + at);
        });
        await new Promise((done) => { setTimeout(done, 0); });
      }
      const known = new Map();
      const isFound = (id) => {
        if (!known.has(id)) known.set(id, found(id.toLowerCase()));
        return known.get(id);
      };
      const hits = new Set();
      for await (const [at, { answers, seen }] of rows()) {
        if (isStale()) return null;
        const parts = [...answers, ...answers.flatMap((answer) => answer?.calls ?? []), ...seen.map(({ wanted }) => wanted)];
        const holders = parts.filter(Boolean);
        if (holders.some(({ ids, texts: own }) => ids?.some(isFound) || own?.some((each) => texts.has(each)))) hits.add(at);
      }
      return hits;
    },
  };
};

const drawTable = async (index, checks) => {
  const url = await blobOf("library-table");
  const { default: DataTable } = await import(url);
  URL.revokeObjectURL(url);
  const order = (sign) => (one, other) => {
    if (one == null || other == null) return (one == null) - (other == null);
    return sign * (one - other);
  };
  Object.assign(DataTable.ext.type.order, {
    "score-pre": (value) => value,
    "score-asc": order(1),
    "score-desc": order(-1),
  });
  byId("all-queries").hidden = false;
  const [metric, show, search] = ["metric", "show", "search"].map(byId);
  const others = index.systems.map((_, at) => at).slice(1);
  const deltas = index.compared ? others : [];
  const isMany = index.systems.length > RULES.abreast;
  byId("queries").classList.toggle("many", isMany);
  const score = (system, at) => index.scores[metric.value][system][at];
  const isGain = (value) => (index.lowerIsBetter[metric.value] ? value < 0 : value > 0);
  const delta = (system, at) => {
    const [value, base] = [score(system, at), score(0, at)];
    return value == null || base == null ? null : value - base;
  };
  show.append(option("all", "all questions"));
  if (deltas.length) {
    show.append(option("worse", "worse than the baseline"), option("better", "better than the baseline"), option("same", "the same"));
  }
  for (const [kind, members] of Object.entries(checks)) {
    if (members.size) show.append(option(kind, LABELS[kind]));
  }
  const lost = index.lost.map((each) => new Map(Object.entries(each).map(([loss, at]) => [loss, new Set(at)])));
  const losses = new Set(lost.flatMap((each) => [...each.keys()]).filter((loss) => loss !== RULES.otherId));
  show.append(...[...losses].map((loss) => option(loss, loss)));
  const slices = index.slices.map((slice) => {
    const select = make("select", { "aria-label": slice.key }, option("", "all"));
    slice.values.forEach((value, at) => select.append(option(at, value)));
    byId("slices").append(make("label", {}, `${slice.key} `, select));
    return select;
  });
  const numeric = (title, label, read, text, look) => ({
    title,
    className: `score ${look}`,
    type: "score",
    data: (row, kind) => (kind === "display" ? text(read(row.at), index.digits[metric.value][row.at]) : read(row.at)),
    createdCell: (cell, _, row) => {
      cell.dataset.label = label;
      const value = read(row.at);
      if (look === "change" && value) cell.classList.add(isGain(value) ? "up" : "down");
    },
  });
  const asHtml = (text) => make("i", {}, text).innerHTML;
  const columns = [
    {
      title: "question",
      type: "string",
      searchable: false,
      data: (row, kind) => (kind === "display" ? "" : `${index.queries[row.at]} ${index.ids[row.at]}`),
      createdCell: (cell, _, row) => {
        const text = index.queries[row.at] || index.ids[row.at];
        const inner = make("span", {}, make("bdi", {}, text), make("small", {}, index.ids[row.at]));
        for (const [kind, members] of Object.entries(checks)) {
          if (kind !== "elsewhere" && members.has(row.at)) inner.lastChild.append(" ", make("span", { class: `mark ${kind}` }, LABELS[kind]));
        }
        cell.replaceChildren(make("button", { class: "unfold", "aria-expanded": "false", type: "button" }, inner));
      },
    },
    ...index.systems.map((name, at) => numeric(asHtml(index.heads?.[at] ?? name), name, (row) => score(at, row), number, "")),
    ...(isMany ? [] : deltas).map((at) => {
      const label = deltas.length > 1 ? `change, ${index.systems[at]}` : "change";
      return numeric(asHtml(label), label, (row) => delta(at, row), signed, "change");
    }),
  ];
  const rows = index.ids.map((_, at) => ({ at }));
  const table = new DataTable("#queries", {
    data: rows,
    columns,
    deferRender: true,
    autoWidth: false,
    pageLength: PAGE,
    lengthMenu: [10, 25, 50, 100],
    order: [[deltas.length && !isMany ? 1 + index.systems.length : 1, "asc"]],
    layout: { topStart: null, topEnd: null, bottomStart: "info", bottomEnd: ["pageLength", "paging"] },
    language: {
      lengthMenu: "_MENU_ a page",
      entries: { _: "questions", 1: "question" },
      emptyTable: "no question",
      zeroRecords: "no such question",
    },
  });

  // ---- which questions are shown
  const searching = searchOf(index);
  let found = null; // positions; null where nobody searches
  let only = null; // the ids that a bar of a plot, or a link to it, chose, and what it is called
  const isKept = (at) => {
    const what = show.value;
    if (found && !found.has(at)) return false;
    if (only && !only.ids.has(index.ids[at])) return false;
    if (what in checks && !checks[what].has(at)) return false;
    const changes = deltas.map((system) => delta(system, at)).filter((value) => value != null);
    if (losses.has(what) && !lost[index.wayOfMetric[metric.value]].get(what)?.has(at)) return false;
    if (what === "worse" && !changes.some((value) => value && !isGain(value))) return false;
    if (what === "better" && !changes.some(isGain)) return false;
    if (what === "same" && !(changes.length && changes.every((value) => value === 0))) return false;
    return slices.every((select, key) => select.value === "" || index.slices[key].ofQuery[at] === Number(select.value));
  };
  table.search.fixed("shown", (_text, row) => isKept(row.at));

  let opened = null;
  const remember = () => writeAddress({
    q: opened == null ? null : index.ids[opened],
    metric: Number(metric.value) === index.shown ? null : index.metrics[metric.value],
    show: show.value === "all" ? null : show.value,
    search: search.value,
    only: only?.label,
    ...Object.fromEntries(slices.map((select, key) =>
      [`in ${index.slices[key].key}`, select.value === "" ? null : index.slices[key].values[select.value]])),
  });
  const again = () => {
    table.draw();
    remember();
  };
  let searches = 0;
  const searched = async () => {
    searches += 1;
    const own = searches;
    const text = search.value.trim();
    const status = byId("searching");
    found = text ? searching.inQuestions(text) : null;
    status.textContent = text ? "looking through the passages …" : "";
    again();
    if (!text) return;
    await new Promise((done) => { setTimeout(done, 200); }); // until the next letter
    if (own !== searches) return;
    const hits = await searching.inPassages(text, () => own !== searches);
    if (!hits) return;
    status.textContent = hits.size ? `in passages of ${counted(hits.size, "question", "questions")}` : "";
    for (const at of hits) found.add(at);
    table.draw();
  };
  page.filter = (ids, label) => {
    only = ids && { ids: new Set(ids), label };
    byId("only").hidden = !only;
    byId("only").replaceChildren(...(only ? [`Only ${label} `, make("button", { type: "button", class: "copy" }, "Show all")] : []));
    byId("only").querySelector("button")?.addEventListener("click", () => page.filter(null));
    again();
    if (only) byId("all-queries").scrollIntoView();
  };

  // ---- one of them, unfolded
  const unfold = async (tr, isOpen) => {
    const row = table.row(tr);
    const { at } = row.data();
    tr.querySelector(".unfold").setAttribute("aria-expanded", String(isOpen));
    if (isOpen) row.child(await unfolded(index, at, metric.value), "child").show();
    else row.child.hide();
    opened = isOpen ? at : opened === at ? null : opened;
    remember();
  };
  const turnTo = async (at) => {
    const place = table.rows({ order: "applied", search: "applied" }).data().toArray().findIndex((row) => row.at === at);
    table.page(Math.floor(place / table.page.len())).draw("page");
    const row = table.row((_number, data) => data.at === at);
    if (!row.child.isShown()) await unfold(row.node(), true);
    return row.node();
  };
  const open = async (at) => {
    if (!isKept(at)) {
      [show.value, search.value, found, searches] = ["all", "", null, searches + 1];
      byId("searching").textContent = "";
      for (const select of slices) select.value = "";
      page.filter(null);
    }
    (await turnTo(at)).scrollIntoView();
  };
  byId("queries").addEventListener("click", (event) => {
    const tr = event.target.closest(".unfold")?.closest("tr");
    if (tr) unfold(tr, !table.row(tr).child.isShown()).catch(trouble);
  });
  metric.addEventListener("change", async () => {
    const at = opened;
    table.rows().every(function close() { if (this.child.isShown()) this.child.hide(); });
    table.clear().rows.add(rows).draw();
    opened = null;
    if (at != null && isKept(at)) await turnTo(at);
    remember();
  });
  for (const select of [show, ...slices]) select.addEventListener("change", again);
  search.addEventListener("input", () => searched().catch(trouble));

  // ---- what the address asks for
  const follow = async () => {
    const asked = readAddress();
    const chosen = index.metrics.indexOf(asked.get("metric"));
    const isOther = chosen >= 0 && chosen !== Number(metric.value);
    if ([...show.options].some(({ value }) => value === asked.get("show"))) show.value = asked.get("show");
    slices.forEach((select, key) => {
      const value = index.slices[key].values.indexOf(asked.get(`in ${index.slices[key].key}`));
      if (value >= 0) select.value = value;
    });
    const at = index.ids.indexOf(asked.get("q"));
    if (asked.get("search")) {
      search.value = asked.get("search");
      await searched();
    }
    if (isOther) {
      metric.value = chosen;
      metric.dispatchEvent(new Event("change"));
    } else if ([...asked].length) {
      table.draw();
    }
    const bar = asked.get("only") && await questionsOfBar(index, asked.get("only"));
    if (bar) page.filter(bar, asked.get("only"));
    if (at >= 0) await open(at);
    return at < 0 && [...asked.keys()].some((name) => name.startsWith("in "));
  };
  addEventListener("hashchange", async () => {
    if (await follow().catch(trouble)) byId("all-queries").scrollIntoView();
  });
  await follow();

  // ---- paper has no pages to turn: as many as are readable, and how many are left out
  const paper = byId("on-paper");
  paper.textContent = "";
  let before = null;
  addEventListener("beforeprint", () => {
    before = table.page.info();
    const printed = Math.min(table.page.info().recordsDisplay, PRINTED);
    table.page.len(printed || PAGE).draw();
    const [shown, all] = [printed, index.ids.length].map((n) => n.toLocaleString("en"));
    if (shown !== all) paper.textContent = `${shown} of ${all} questions are printed; the page has them all.`;
  });
  addEventListener("afterprint", () => {
    paper.textContent = "";
    table.page.len(before.length).page(before.page).draw("page");
  });
  linkSlices(index);
  byId("all-queries").dataset.ready = "true";
};

// ---- rows of tables by slice lead to the questions of that slice
const linkSlices = (index) => {
  for (const table of document.querySelectorAll("table.numbers")) {
    const slice = index.slices.find(({ key }) => key === table.querySelector("thead th")?.textContent);
    for (const head of slice ? table.querySelectorAll("tbody th") : []) {
      const value = head.textContent.replace(/ \([\d,]+\)$/, "");
      const place = new URLSearchParams({ [`in ${slice.key}`]: value });
      if (slice.values.includes(value)) head.replaceChildren(make("a", { href: `#${place}` }, head.textContent));
    }
  }
};

// ---- failed, empty and unanswerable questions, on their own
const drawChecks = (index, checks) => {
  const place = byId("to-check");
  for (const [kind, members] of Object.entries(checks)) {
    if (!members.size) continue;
    const label = [`${LABELS[kind]} `, tag("count", `(${members.size.toLocaleString("en")})`)];
    place.append(
      fold(label, (details) => {
        if (kind === "elsewhere") details.append(...remedy());
        details.append(...[...members].map((at) => {
          const whose = (index[kind] || []).map((column, system) => [column, index.systems[system]]);
          const names = ["failed", "empty"].includes(kind)
            ? whose.filter(([column]) => column.includes(at)).map(([, name]) => name)
            : [];
          const title = [make("span", {}, index.queries[at] || index.ids[at]), tag("count", ` ${[index.ids[at], ...names].join(" · ")}`)];
          return fold(title, async (inner) => inner.append(await unfolded(index, at, byId("metric").value)));
        }));
      }),
    );
  }
  place.hidden = place.children.length < 2;
  if (place.hidden) return;
  const link = make("a", { href: "#to-check" }, place.querySelector("h2").textContent);
  document.querySelector('.contents a[href="#all-queries"]')?.parentNode.before(make("li", {}, link));
};
