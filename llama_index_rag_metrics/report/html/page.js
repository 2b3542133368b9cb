(() => {
  const NONE = "–";

  const remembered = new Map();
  const chunk = async (name) => {
    if (!remembered.has(name)) remembered.set(name, unpack(name).then(JSON.parse));
    return remembered.get(name);
  };
  const blobOf = async (name) =>
    URL.createObjectURL(new Blob([await unpack(name)], { type: "text/javascript" }));

  const option = (value, label) => make("option", { value }, label);
  const fold = (label, fill) => {
    const details = make("details", {}, make("summary", {}, ...label));
    const once = () => {
      if (!details.open) return;
      details.removeEventListener("toggle", once);
      fill(details);
    };
    details.addEventListener("toggle", once);
    return details;
  };
  const number = (value) => (value == null ? NONE : value.toFixed(4));
  const signed = (value) => {
    if (value == null) return NONE;
    if (Math.abs(value) < 0.00005) return "0";
    return (value > 0 ? "▲ " : "▼ ") + Math.abs(value).toFixed(4);
  };

  const trouble = (error) => {
    const place = byId("trouble");
    place.hidden = false;
    place.textContent = `This part of the report can't be shown: ${error.message}`;
    console.error(error);
  };

  // ---- one query, unfolded: every system's ranking side by side
  const textOf = async (index, at) => {
    const starts = index.textStarts;
    let low = 0;
    let high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= at) low = middle;
      else high = middle;
    }
    const kept = (await chunk(`texts-${low}`))[at - starts[low]];
    return typeof kept === "string" ? [kept, 0] : kept;
  };
  const folded = (index, line, at) =>
    fold([line], async (details) => {
      const [text, whole] = await textOf(index, at);
      details.append(make("p", {}, text));
      if (whole) {
        details.append(make("p", { class: "quiet" }, `cut at ${index.cut} of ${whole} characters`));
      }
    });
  const ranksOf = (answer) => {
    const ranks = new Map();
    if (answer) for (const id of answer[0]) if (!ranks.has(id)) ranks.set(id, ranks.size + 1);
    return ranks;
  };
  const gradeOf = (grade) => {
    if (grade == null) return make("span", { class: "grade none" }, "unjudged");
    if (grade >= 1) return make("span", { class: "grade" }, grade === 1 ? "hit" : `hit, grade ${grade}`);
    return make("span", { class: "grade none" }, grade > 0 ? `grade ${grade}` : "not relevant");
  };
  const wantedGrade = (grade) =>
    grade === 1 ? null : make("span", { class: grade > 1 ? "grade" : "grade none" }, `grade ${grade}`);
  const moveOf = (rank, before) => {
    if (before == null) return make("span", { class: "move new" }, "new");
    const by = before - rank;
    if (by === 0) return make("span", { class: "move", title: `also rank ${before}` }, "=");
    const look = by > 0 ? "up" : "down";
    const title = `rank ${before} in the baseline`;
    return make("span", { class: `move ${look}`, title }, `${by > 0 ? "▲" : "▼"} ${Math.abs(by)}`);
  };
  const lineOf = (rank, id, grade, move) =>
    make("div", { class: "line" }, make("span", { class: "rank" }, rank), make("span", { class: "id" }, id), grade, move);

  // what an item stands for: what the matcher recognised it as, or itself
  const namesOf = ([ids, , , , , standsFor], position) => standsFor?.[position] ?? [ids[position]];
  const covered = (answer) => {
    const ranks = new Map();
    if (!answer) return ranks;
    const own = ranksOf(answer);
    answer[0].forEach((id, position) => {
      for (const name of namesOf(answer, position)) if (!ranks.has(name)) ranks.set(name, own.get(id));
    });
    return ranks;
  };
  // a query as one matcher sees it: the first is packed whole, of the others what differs
  const seenBy = ([wanted, answers, others], matcher) => {
    if (!matcher) return [wanted, answers];
    const [ownWanted, graded] = others[matcher - 1];
    return [ownWanted, answers.map((answer, at) => {
      if (!answer) return answer;
      const [ids, , texts, latency, error, , calls] = answer;
      const [grades, standsFor] = graded[at];
      return [ids, grades, texts, latency, error, standsFor, calls];
    })];
  };
  const wantedLine = (index, [id, grade, text], or) => {
    const line = lineOf(or ? "or" : "", id, wantedGrade(grade));
    return make("li", {}, text == null ? line : folded(index, line, text));
  };

  const sideOf = (index, query, at, scores) => {
    const [wanted, answers] = query;
    const answer = answers[at];
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = index.colours[at % index.colours.length];
    const head = make("h4", { "aria-level": 3 }, swatch, index.systems[at]);
    const side = make("div", { class: "side" }, head);
    head.append(make("span", { class: "quiet" }, number(scores[at])));
    if (!answer) {
      side.append(make("p", { class: "quiet" }, "no ranking known"));
      return side;
    }
    const [ids, grades, texts, latency, error] = answer;
    if (latency != null) head.append(make("span", { class: "quiet" }, milliseconds(latency)));
    if (error != null) side.append(make("p", { class: "failure" }, `failed: ${error}`));
    else if (!ids.length) side.append(make("p", { class: "failure" }, "nothing retrieved"));
    const compared = index.compared && at > 0 && answers[0];
    const before = compared ? ranksOf(answers[0]) : null;
    const ranks = ranksOf(answer);
    const list = make("ol", { class: "ranking" });
    const seen = new Set();
    ids.forEach((id, position) => {
      const again = seen.has(id);
      seen.add(id);
      const rank = ranks.get(id);
      const grade = grades[position];
      const move = again ? make("span", { class: "move" }, "again") : before && moveOf(rank, before.get(id));
      const shown = again || !wanted.length ? null : gradeOf(grade);
      const names = namesOf(answer, position);
      const label = names.length === 1 && names[0] === id ? id : `${id} = ${names.join(", ")}`;
      const line = lineOf(again ? "" : rank, label, shown, move);
      const row = texts[position] == null ? line : folded(index, line, texts[position]);
      list.append(make("li", { class: !again && grade >= 1 ? "hit" : null }, row));
    });
    side.append(list);
    if (before) {
      const grade = new Map(wanted);
      const [baselineRanks, ownRanks] = [covered(answers[0]), covered(answer)];
      const relevant = [...baselineRanks].filter(([id]) => grade.get(id) >= 1 && !ownRanks.has(id));
      listOf(side, "Relevant, dropped", relevant, ([id, rank]) =>
        lineOf(rank, id, wantedGrade(grade.get(id)), make("span", { class: "move dropped" }, "dropped")));
      const standing = (id) => namesOf(answers[0], answers[0][0].indexOf(id));
      const rest = [...before].filter(([id]) => !ranks.has(id) && !standing(id).some((name) => grade.get(name) >= 1));
      listOf(side, "Dropped", rest, ([id, rank]) =>
        lineOf(rank, id, null, make("span", { class: "move" }, "dropped")));
    }
    callsOf(side, answer[6]);
    return side;
  };
  const callsOf = (side, calls) => {
    if (!calls) return;
    side.append(make("h5", { "aria-level": 4 }, calls.length ? "Calls" : "No call was made"));
    calls.forEach(([query, askedBy, ids, grades, isNew, latency, error], number) => {
      const head = make("p", { class: "call" }, `${number + 1}. `, make("b", {}, query));
      if (askedBy) head.append(make("span", { class: "quiet" }, ` ${askedBy}`));
      if (latency != null) head.append(make("span", { class: "quiet" }, ` ${milliseconds(latency)}`));
      side.append(head);
      if (error != null) side.append(make("p", { class: "failure" }, `failed: ${error}`));
      else if (!ids.length) side.append(make("p", { class: "failure" }, "nothing retrieved"));
      const list = make("ol", { class: "ranking" });
      ids.forEach((id, position) => {
        const mark = make("span", { class: "move" }, isNew[position] ? "new" : "known");
        const line = lineOf(position + 1, id, gradeOf(grades[position]), mark);
        list.append(make("li", { class: grades[position] >= 1 && isNew[position] ? "hit" : null }, line));
      });
      side.append(list);
    });
  };
  const listOf = (side, title, rows, line) => {
    if (!rows.length) return;
    const list = make("ol", { class: "ranking" }, ...rows.map((row) => make("li", {}, line(row))));
    side.append(make("h5", { "aria-level": 4 }, title), list);
  };
  const milliseconds = (seconds) => {
    const [number, unit] = seconds >= 1 ? [seconds, "s"] : [seconds * 1e3, "ms"];
    return `${number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0)} ${unit}`;
  };

  const unfolded = async (index, at, metric) => {
    const place = make("div", { class: "unfolded" });
    const scores = index.scores[metric].map((column) => column[at]);
    const rankings = `rankings-${Math.floor(at / index.perChunk)}`;
    if (!carrier(rankings)) {
      place.append(make("p", { class: "quiet" }, "Bare scores have no rankings."));
      return place;
    }
    const query = seenBy((await chunk(rankings))[at % index.perChunk], index.matcherOfMetric[metric]);
    const [wanted, answers] = query;
    const found = new Set(answers.flatMap((answer) => [...covered(answer).keys()]));
    const missed = wanted.filter(([id, grade]) => grade >= 1 && !found.has(id));
    place.append(make("div", { class: "sides" }, ...index.systems.map((_, system) => sideOf(index, query, system, scores))));
    if (missed.length) {
      const side = make("div", { class: "side relevant" });
      listOf(side, "Missed by every system", missed, ([id, grade]) => lineOf("", id, wantedGrade(grade)));
      place.append(side);
    }
    if (wanted.length) {
      const lines = wanted.map((item, position) =>
        wantedLine(index, item, position && item.length > 3 && item[3] === wanted[position - 1][3]));
      const side = make("div", { class: "side relevant" }, make("h5", { "aria-level": 4 }, "Expected passages"));
      const list = make("ol", { class: "ranking" }, ...lines.slice(0, 20));
      side.append(list);
      if (lines.length > 20) {
        side.append(fold([`${lines.length - 20} more`], (details) =>
          details.append(make("ol", { class: "ranking" }, ...lines.slice(20)))));
      }
      place.append(side);
    }
    place.append(...(index.remarks[at] ?? []).map((remark) => make("p", { class: "quiet" }, remark)));
    return place;
  };

  // ---- the table of queries
  const toCheck = (index) => ({
    failed: new Set(index.failed.flat()),
    empty: new Set(index.empty.flat()),
    unanswerable: new Set(index.unanswerable),
    unjudged: new Set(index.unjudged),
  });
  const LABELS = {
    failed: "failed",
    empty: "nothing retrieved",
    unanswerable: "no known relevant passage",
    unjudged: "unjudged",
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
    const metric = byId("metric");
    const show = byId("show");
    index.metrics.forEach((name, at) => metric.append(option(at, name)));
    metric.value = index.shown;
    const others = index.systems.map((_, at) => at).slice(1);
    const deltas = index.compared ? others : [];
    const isMany = index.systems.length > 4;
    byId("queries").classList.toggle("many", isMany);
    const score = (system, at) => index.scores[metric.value][system][at];
    const isGain = (value) => (index.lowerIsBetter[metric.value] ? value < 0 : value > 0);
    const delta = (system, at) => {
      const [value, base] = [score(system, at), score(0, at)];
      return value == null || base == null ? null : value - base;
    };
    show.append(option("all", "all queries"));
    if (deltas.length) {
      show.append(option("worse", "worse than the baseline"), option("better", "better than the baseline"), option("same", "the same"));
    }
    for (const [kind, members] of Object.entries(checks)) {
      if (members.size) show.append(option(kind, LABELS[kind]));
    }
    const chosen = index.slices.map((slice) => {
      const select = make("select", { "aria-label": slice.key }, option("", "all"));
      slice.values.forEach((value, at) => select.append(option(at, value)));
      byId("slices").append(make("label", {}, `${slice.key} `, select));
      return select;
    });
    const numeric = (title, label, read, text, look) => ({
      title,
      className: `score ${look}`,
      type: "score",
      data: (row, kind) => (kind === "display" ? text(read(row.at)) : read(row.at)),
      createdCell: (cell, _, row) => {
        cell.dataset.label = label;
        const value = read(row.at);
        if (look === "change" && value) cell.classList.add(isGain(value) ? "up" : "down");
      },
    });
    const escaped = (text) => make("i", {}, text).innerHTML;
    const columns = [
      {
        title: "query",
        type: "string",
        data: (row, kind) => (kind === "display" ? "" : `${index.queries[row.at]} ${index.ids[row.at]}`),
        createdCell: (cell, _, row) => {
          const text = index.queries[row.at] || index.ids[row.at];
          const inner = make("span", {}, text, make("small", {}, index.ids[row.at]));
          for (const [kind, members] of Object.entries(checks)) {
            if (members.has(row.at)) inner.lastChild.append(" ", make("span", { class: `mark ${kind}` }, LABELS[kind]));
          }
          cell.replaceChildren(make("button", { class: "unfold", "aria-expanded": "false", type: "button" }, inner));
        },
      },
      ...index.systems.map((name, at) => numeric(escaped(index.heads[at]), name, (row) => score(at, row), number, "")),
      ...(isMany ? [] : deltas).map((at) => {
        const label = deltas.length > 1 ? `change, ${index.systems[at]}` : "change";
        return numeric(escaped(label), label, (row) => delta(at, row), signed, "change");
      }),
    ];
    const table = new DataTable("#queries", {
      data: index.ids.map((_, at) => ({ at })),
      columns,
      deferRender: true,
      autoWidth: false,
      pageLength: 25,
      lengthMenu: [10, 25, 50, 100],
      order: [[deltas.length && !isMany ? 1 + index.systems.length : 1, "asc"]],
      layout: { topStart: "search", topEnd: "pageLength", bottomStart: "info", bottomEnd: "paging" },
      language: { search: "", searchPlaceholder: "search queries and ids", lengthMenu: "_MENU_ a page" },
    });
    const kept = (at) => {
      const what = show.value;
      if (what in checks && !checks[what].has(at)) return false;
      const changes = deltas.map((system) => delta(system, at)).filter((value) => value != null);
      if (what === "worse" && !changes.some((value) => value && !isGain(value))) return false;
      if (what === "better" && !changes.some(isGain)) return false;
      if (what === "same" && !(changes.length && changes.every((value) => value === 0))) return false;
      return chosen.every((select, key) => select.value === "" || index.slices[key].ofQuery[at] === Number(select.value));
    };
    table.search.fixed("shown", (_text, row) => kept(row.at));
    const again = () => table.draw();
    metric.addEventListener("change", () => {
      table.rows().every(function close() { if (this.child.isShown()) this.child.hide(); });
      table.clear().rows.add(index.ids.map((_, at) => ({ at }))).draw();
    });
    for (const select of [show, ...chosen]) select.addEventListener("change", again);
    byId("queries").addEventListener("click", async (event) => {
      const button = event.target.closest(".unfold");
      if (!button) return;
      const row = table.row(button.closest("tr"));
      const open = row.child.isShown();
      button.setAttribute("aria-expanded", String(!open));
      if (open) row.child.hide();
      else row.child(await unfolded(index, row.data().at, metric.value), "child").show();
    });
    byId("all-queries").dataset.ready = "true";
  };

  // ---- failed, empty and unanswerable queries, on their own
  const drawChecks = (index, checks) => {
    const place = byId("to-check");
    for (const [kind, members] of Object.entries(checks)) {
      if (!members.size) continue;
      place.hidden = false;
      const label = [`${LABELS[kind]} `, make("span", { class: "count" }, `(${members.size.toLocaleString("en")})`)];
      place.append(
        fold(label, (details) => {
          details.append(...[...members].map((at) => {
            const whose = (index[kind] || []).map((column, system) => [column, index.systems[system]]);
            const names = ["failed", "empty"].includes(kind)
              ? whose.filter(([column]) => column.includes(at)).map(([, name]) => name)
              : [];
            const title = [index.queries[at] || index.ids[at], make("span", { class: "count" }, ` ${[index.ids[at], ...names].join(" · ")}`)];
            return fold(title, async (inner) => inner.append(await unfolded(index, at, index.shown)));
          }));
        }),
      );
    }
  };

  // ---- paper can't be clicked: what is folded in the page itself is printed open
  const folds = [...document.querySelectorAll("main > .card > details")];
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = folds.filter((details) => !details.open);
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  const start = async () => {
    const index = await chunk("index");
    if (index.ids) {
      const checks = toCheck(index);
      drawChecks(index, checks);
      await drawTable(index, checks);
    }
    await drawPlots(index, { chunk, blobOf, option });
  };
  start().catch(trouble);
})();
