// ---- one item after the other: shown, judged, kept, exported
const review = async () => {
  const data = JSON.parse(await unpack("review"));
  const keyOf = (judged) => JSON.stringify([judged.query_id, judged.doc_id]);
  const items = data.items.map((item) => ({ ...item, key: keyOf(item) }));
  const given = new Map(data.judgements.map((record) => [keyOf(record), record]));
  const { choices, intro } = data.scale;

  let store = null;
  let me = "";
  let stored = new Map();
  let shown = 0;
  let undoable = [];
  let noteTimer = 0;
  let storing = 0;
  let isExported = true;
  let isLost = false;

  // a page that is opened anew in the same tab goes on without asking again
  const memory = `rag-metrics review ${data.pool}`;
  const recalled = () => { try { return sessionStorage.getItem(memory); } catch { return null; } };
  const remember = (name) => { try { sessionStorage.setItem(memory, name); } catch { /* asked */ } };

  // ---- what is judged
  const judgementOf = (item) => {
    const [own, read] = [stored.get(item.key), given.get(item.key)];
    return own && read && Date.parse(read.judged_at) > Date.parse(own.judged_at) ? read : own || read;
  };
  const isDone = (record) => Boolean(record && (record.grade !== null || record.skipped));
  const isOpen = (item) => !isDone(judgementOf(item));
  const choiceOf = (record) => choices.find((choice) => record && choice.grade === record.grade);
  const nextOpen = (start) => {
    for (let step = 0; step < items.length; step += 1) {
      const place = (start + step) % items.length;
      if (isOpen(items[place])) return place;
    }
    return -1;
  };

  // ---- what is seen
  const said = (text, isBad = false) => {
    byId("kept").textContent = text;
    byId("kept").classList.toggle("bad", isBad);
  };
  const refused = (reason) => {
    byId("refused").hidden = false;
    byId("leave").hidden = true;  // whoever comes next would take these grades away
    byId("refused").textContent =
      `This browser keeps nothing (${reason}). Grades are lost when the page is closed: export first.`;
  };
  const timeLeft = (n) => {
    const times = items.map((item) => stored.get(item.key))
      .filter(isDone).map((record) => Date.parse(record.judged_at)).sort((a, b) => a - b);
    const pauses = times.slice(1).map((time, place) => time - times[place])
      .filter((pause) => pause < 300000).slice(-30).sort((a, b) => a - b);
    if (pauses.length < 5 || !n) return "";
    const minutes = (pauses[Math.floor(pauses.length / 2)] * n) / 60000;
    if (minutes < 1.5) return "about a minute left";
    return minutes < 90 ? `about ${Math.round(minutes)} min left`
      : `about ${(minutes / 60).toFixed(1)} h left`;
  };
  const showProgress = () => {
    const n = items.length;
    const open = items.filter(isOpen).length;
    const skipped = items.filter((item) => judgementOf(item)?.skipped).length;
    byId("count").textContent = `${n - open} of ${n}`;
    byId("left").textContent = timeLeft(open);
    const bar = byId("progress");
    bar.setAttribute("aria-valuemax", n);
    bar.setAttribute("aria-valuenow", n - open);
    bar.firstElementChild.style.width = `${(100 * (n - open)) / n}%`;
    document.title = `${n - open} of ${n} · ${data.title}`;
    byId("done").hidden = open > 0;
    byId("done-text").textContent = skipped
      ? `That was the last one: ${n - skipped} judged, ${skipped} skipped.` : `All ${n} are judged.`;
    byId("done-skipped").hidden = !skipped;
  };
  const showChoices = (record) => {
    byId("intro").textContent = intro;
    byId("choices").replaceChildren(...choices.map((choice) => {
      const button = make(
        "button",
        {
          type: "button", class: "choice", "data-grade": choice.grade,
          "aria-keyshortcuts": choice.grade,
          "aria-pressed": String(choiceOf(record) === choice),
        },
        make("kbd", {}, String(choice.grade)),
        make("span", {}, choice.label && make("b", {}, choice.label),
          make("span", { class: "rubric" }, choice.rubric)),
      );
      button.addEventListener("click", () => grade(choice));
      return button;
    }));
    byId("rubric").replaceChildren(...choices.flatMap((choice) => [
      make("dt", {}, `${choice.grade} ${choice.label}`.trim()), make("dd", {}, choice.rubric),
    ]));
  };
  const show = (isNew) => {
    const item = items[shown];
    const record = judgementOf(item);
    const ofQuery = items.filter((other) => other.query_id === item.query_id);
    byId("query").textContent = data.queries[item.query_id];
    byId("place").textContent =
      `${ofQuery.indexOf(item) + 1} of ${ofQuery.length} for this question`;
    byId("passage").textContent = item.text || "This passage is empty.";
    byId("skip").setAttribute("aria-pressed", String(Boolean(record?.skipped)));
    byId("previous").disabled = shown === 0;
    byId("next").disabled = shown === items.length - 1;
    byId("undo").disabled = !undoable.length;
    showChoices(record);
    if (isNew || document.activeElement !== byId("note")) byId("note").value = record?.note || "";
    if (isNew) {
      window.scrollTo(0, 0);
      byId("asked").scrollTop = 0;
      byId("passage").focus({ preventScroll: true });
    }
    showProgress();
  };
  const go = (place) => {
    if (place < 0 || place >= items.length) return;
    keepNote();
    shown = place;
    show(true);
  };

  // ---- what is kept: seen at once, called stored when the disk has it
  const kept = async (item, record, told) => {
    if (record) stored.set(item.key, record);
    else stored.delete(item.key);
    storing += 1;
    isExported = false;
    said("Storing…");
    let isStored = false;
    try {
      await store.put(me, item.key, record);
      isStored = true;
    } catch (error) {
      if (store) refused(error?.message || error);
    }
    storing -= 1;
    if (!isStored) isLost = true;
    if (!storing) said(isStored ? `${told} · stored` : `${told} · not stored`, !isStored);
  };
  const put = (item, part, told) => {
    const older = judgementOf(item);
    return kept(item, {
      grade: older?.grade ?? null, skipped: older?.skipped ?? false, note: older?.note ?? "",
      ...part, reviewer: me, judged_at: new Date().toISOString(),
    }, told);
  };
  const judge = async (part, told) => {
    const item = items[shown];
    const note = takeNote();
    undoable.push({ item, before: stored.get(item.key) });
    const change = put(item, note === null ? part : { ...part, note }, told);
    const open = nextOpen(shown + 1);
    if (open >= 0 && open !== shown) go(open);
    else show(true);
    await change;
  };
  const grade = (choice) => judge(
    { grade: choice.grade, skipped: false },
    choice.label ? `${choice.grade} · ${choice.label}` : `Grade ${choice.grade}`,
  );
  const skip = () => judge({ grade: null, skipped: true }, "Skipped");
  const undo = async () => {
    const step = undoable.pop();
    if (!step) return;
    keepNote();
    const note = stored.get(step.item.key)?.note || "";  // notes stay
    const bare = { grade: null, skipped: false, reviewer: me, judged_at: new Date().toISOString() };
    await kept(step.item, step.before || note ? { ...(step.before || bare), note } : null, "Undone");
    shown = items.indexOf(step.item);
    show(true);
  };

  // a note is kept while it is written, and belongs to the item under which it was written
  const takeNote = () => {
    if (!noteTimer) return null;
    clearTimeout(noteTimer);
    noteTimer = 0;
    return byId("note").value;
  };
  const keepNote = () => {
    const note = takeNote();
    if (note !== null) put(items[shown], { note }, "Note");
  };

  // ---- out
  const lines = () => {
    const records = data.others.map((record) => [keyOf(record), record]);
    for (const item of items) {
      const record = judgementOf(item);
      if (!record || !(isDone(record) || record.note)) continue;
      records.push([item.key, {
        query_id: item.query_id, doc_id: item.doc_id,
        scale: data.names_scale ? data.scale.name : undefined,
        grade: record.grade, skipped: Boolean(record.skipped), reviewer: record.reviewer,
        judged_at: record.judged_at, note: record.note || "",
      }]);
    }
    records.sort(([first], [second]) => (first < second ? -1 : first > second ? 1 : 0));
    return records.map(([, record]) => `${JSON.stringify(record)}\n`).join("");
  };
  const exported = async () => {
    keepNote();
    const address = URL.createObjectURL(new Blob([lines()], { type: "application/jsonl" }));
    const link = make("a", { href: address, download: data.output });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    isExported = true;
    if (!storing) said(`Exported as ${data.output}`);
  };

  // ---- keys: by what they write, and by where they are on keyboards that write no Latin letters
  const isPressed = (event, key) => {
    const written = event.key.toLowerCase();
    if (/^[a-z0-9]$/.test(written)) return written === key;
    return !event.shiftKey && [`Key${key.toUpperCase()}`, `Digit${key}`, `Numpad${key}`].includes(event.code);
  };
  const commands = {
    s: skip, u: undo, e: exported, n: () => byId("note").focus(),
    f: () => go(nextOpen(0)),
  };
  const pressed = (event) => {
    if (byId("review").hidden || event.isComposing) return;
    if (event.key === "Escape" && event.target === byId("note")) {
      keepNote();
      byId("passage").focus({ preventScroll: true });
      return;
    }
    if (event.target.closest("textarea, select, input:not([type=checkbox])")) return;
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && isPressed(event, "z")) {
      event.preventDefault();
      undo();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked) return;
    if (event.key === "ArrowLeft") go(shown - 1);
    else if (event.key === "ArrowRight") go(shown + 1);
    else if (!event.repeat) {
      const choice = choices.find((each) => isPressed(event, String(each.grade)));
      const command = Object.keys(commands).find((key) => isPressed(event, key));
      if (!choice && !command) return;
      event.preventDefault();
      if (choice) grade(choice);
      else commands[command]();
    }
  };

  // ---- the beginning
  const begin = async (name) => {
    me = name;
    remember(name);
    stored = store ? await store.all(me) : new Map();
    undoable = [];
    byId("me").textContent = me;
    byId("start").hidden = true;
    byId("review").hidden = false;
    said(store ? "" : "Not stored", !store);
    shown = Math.max(0, nextOpen(0));
    show(true);
    // otherwise a browser may drop what it keeps when the disk gets full
    navigator.storage?.persist?.().catch(() => false);
  };
  const ask = async () => {
    const read = [...given.values()].map((record) => record.reviewer).filter(Boolean);
    byId("review").hidden = true;
    byId("start").hidden = false;
    byId("extent").textContent = data.extent;
    byId("reviewer").value = me || (store && (await store.sessions())[0]) || read[0] || "";
    byId("reviewer").focus();
  };

  try {
    store = await BrowserStore.open(data.pool);
  } catch (error) {
    isLost = true;
    refused(error.message);
  }
  const named = () => {
    const name = byId("reviewer").value.trim();
    byId("who-is-missing").textContent = name ? "" : "Give a name, so that grades can be told apart.";
    if (name) begin(name);
  };
  // no form: where frames are sandboxed, these aren't sent
  byId("begin").addEventListener("click", named);
  byId("reviewer").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) named();
  });
  byId("leave").addEventListener("click", () => { keepNote(); ask(); });
  byId("previous").addEventListener("click", () => go(shown - 1));
  byId("next").addEventListener("click", () => go(shown + 1));
  byId("skip").addEventListener("click", skip);
  byId("undo").addEventListener("click", undo);
  byId("export").addEventListener("click", exported);
  byId("done-export").addEventListener("click", exported);
  byId("done-skipped").addEventListener("click", () =>
    go(items.findIndex((item) => judgementOf(item)?.skipped)));
  byId("note").addEventListener("input", () => {
    clearTimeout(noteTimer);
    said("Storing…");
    noteTimer = setTimeout(keepNote, 250);
  });
  byId("note").addEventListener("blur", keepNote);
  document.addEventListener("keydown", pressed);
  window.addEventListener("beforeunload", (event) => {
    if (storing || noteTimer || (isLost && !isExported)) event.preventDefault();
  });
  new ResizeObserver(([entry]) =>
    document.documentElement.style.setProperty("--head", `${entry.target.offsetHeight}px`),
  ).observe(document.querySelector("header"));

  byId("opening").hidden = true;
  if (recalled()) await begin(recalled());
  else await ask();
};

review().catch((error) => {
  byId("opening").hidden = true;
  byId("trouble").hidden = false;
  byId("trouble").textContent = `This page can't be shown: ${error.message}`;
  console.error(error);
});
