"use strict";
const byId = (id) => document.getElementById(id);

// ---- elements: text is only ever set as text
const make = (tag, attributes, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
};

// ---- where grades are kept: IndexedDB, in a database of the pool's own, by reviewer and passage.
// Transactions are strict: they end when the disk has them, so that a killed browser loses none
// that ended. localStorage is written seconds later, and would lose these.
class Store {
  static async open(pool) {
    const database = await new Promise((done, failed) => {
      const request = indexedDB.open(`rag-metrics review ${pool}`, 1);
      request.onupgradeneeded = () =>
        request.result.createObjectStore("grades", { keyPath: ["reviewer", "key"] });
      request.onsuccess = () => done(request.result);
      request.onerror = () => failed(request.error);
    });
    return new Store(database);
  }

  constructor(database) {
    this.database = database;
  }

  // what a reviewer graded: key of the passage to record
  async all(reviewer) {
    const range = IDBKeyRange.bound([reviewer], [reviewer, []]);
    const stored = await this.run("readonly", (records) => records.getAll(range));
    return new Map(stored.map((record) => [record.key, record]));
  }

  // keeps a record, or deletes it where it is null; resolves when that is on the disk
  put(reviewer, key, record) {
    return this.run("readwrite", (records) =>
      record ? records.put({ ...record, reviewer, key }) : records.delete([reviewer, key]));
  }

  run(mode, work) {
    return new Promise((done, failed) => {
      const transaction = this.database.transaction("grades", mode, { durability: "strict" });
      const request = work(transaction.objectStore("grades"));
      transaction.oncomplete = () => done(request.result);
      transaction.onerror = () => failed(transaction.error);
      transaction.onabort = () => failed(transaction.error || new Error("the browser gave up"));
    });
  }
}

// ---- one passage after the other: shown, graded, kept, exported
const review = async () => {
  const data = JSON.parse(byId("data-review").textContent);
  const keyOf = (query, id) => JSON.stringify([query, id]);
  const items = data.items.map(([query, id, text]) => ({ query, id, text, key: keyOf(query, id) }));
  const given = new Map(data.judgements.map((record) => [keyOf(record.query_id, record.doc_id), record]));

  let store = null;
  let me = "";
  let stored = new Map();
  let shown = 0;
  let undoable = [];
  let storing = 0;
  let isExported = true;
  let isLost = false;

  // a page that is opened anew in the same tab goes on without asking again
  const memory = `rag-metrics review ${data.pool}`;
  const recalled = () => { try { return sessionStorage.getItem(memory); } catch { return null; } };
  const remember = (name) => { try { sessionStorage.setItem(memory, name); } catch { /* asked */ } };

  const judgementOf = (item) => {
    const [own, read] = [stored.get(item.key), given.get(item.key)];
    return own && read && Date.parse(read.judged_at) > Date.parse(own.judged_at) ? read : own || read;
  };
  const isOpen = (item) => !judgementOf(item);
  const nextOpen = (start) => {
    const order = items.map((_, step) => (start + step) % items.length);
    return order.find((place) => isOpen(items[place])) ?? -1;
  };

  // ---- what is seen
  const say = (text, isBad = false) => {
    byId("kept").textContent = text;
    byId("kept").classList.toggle("bad", isBad);
  };
  const refused = (reason) => {
    byId("refused").hidden = false;
    byId("leave").hidden = true;  // whoever comes next would take these grades away
    byId("refused").textContent =
      `This browser keeps nothing (${reason}). Grades are lost when the page is closed: export first.`;
  };
  const showProgress = () => {
    const n = items.length;
    const n_judged = n - items.filter(isOpen).length;
    byId("count").textContent = `${n_judged} of ${n}`;
    document.title = `${n_judged} of ${n} · Review`;
    const bar = byId("progress");
    bar.setAttribute("aria-valuemax", n);
    bar.setAttribute("aria-valuenow", n_judged);
    bar.firstElementChild.style.width = `${(100 * n_judged) / n}%`;
    byId("done").hidden = n_judged < n;
    byId("done-text").textContent = `All ${n} are judged.`;
  };
  const show = (isNew = true) => {
    const item = items[shown];
    const grade = judgementOf(item)?.grade;
    const ofQuery = items.filter((other) => other.query === item.query);
    byId("query").textContent = data.queries[item.query];
    byId("place").textContent =
      `${ofQuery.indexOf(item) + 1} of ${ofQuery.length} for this question`;
    byId("passage").textContent = item.text || "This passage is empty.";
    byId("previous").disabled = shown === 0;
    byId("next").disabled = shown === items.length - 1;
    byId("undo").disabled = !undoable.length;
    for (const button of byId("choices").children) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.grade) === grade));
    }
    if (isNew) {
      window.scrollTo(0, 0);
      byId("asked").scrollTop = 0;
      byId("passage").focus({ preventScroll: true });
    }
    showProgress();
  };
  const go = (place) => {
    if (place < 0 || place >= items.length) return;
    shown = place;
    show();
  };

  // ---- what is kept: seen at once, called stored when the disk has it
  const keep = async (item, record, deed) => {
    if (record) stored.set(item.key, record);
    else stored.delete(item.key);
    storing += 1;
    isExported = false;
    say("Storing…");
    let isStored = false;
    try {
      await store.put(me, item.key, record);
      isStored = true;
    } catch (error) {
      if (store) refused(error?.message || error);
    }
    storing -= 1;
    isLost ||= !isStored;
    if (!storing) say(isStored ? `${deed} · stored` : `${deed} · not stored`, !isStored);
  };
  const grade = (digit) => {
    const item = items[shown];
    undoable.push({ item, before: stored.get(item.key) });
    const record = { grade: Number(digit), reviewer: me, judged_at: new Date().toISOString() };
    keep(item, record, `Grade ${digit}`);
    const open = nextOpen(shown + 1);
    if (open >= 0) go(open);
    else show(false);
  };
  const undo = () => {
    const step = undoable.pop();
    if (!step) return;
    keep(step.item, step.before, "Undone");
    go(items.indexOf(step.item));
  };

  // ---- out: what was given for other pools, too, since the export replaces that file
  const lines = () => {
    const judged = new Map(given);
    for (const item of items.filter((each) => !isOpen(each))) {
      const { grade: given_grade, reviewer, judged_at } = judgementOf(item);
      judged.set(item.key, {
        query_id: item.query, doc_id: item.id, grade: given_grade, reviewer, judged_at,
      });
    }
    const keys = [...judged.keys()].sort();
    return keys.map((key) => `${JSON.stringify(judged.get(key))}\n`).join("");
  };
  const exported = () => {
    const address = URL.createObjectURL(new Blob([lines()], { type: "application/jsonl" }));
    const link = make("a", { href: address, download: data.output });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    isExported = true;
    if (!storing) say(`Exported as ${data.output}`);
  };

  // ---- keys: by what they write, and by where they are on keyboards that write no Latin letters
  const isPressed = (event, key) => {
    const written = event.key.toLowerCase();
    if (/^[a-z0-9]$/.test(written)) return written === key;
    return !event.shiftKey && [`Key${key.toUpperCase()}`, `Digit${key}`, `Numpad${key}`].includes(event.code);
  };
  const commands = { u: undo, e: exported, f: () => go(nextOpen(0)) };
  for (const [digit] of data.choices) commands[digit] = () => grade(digit);
  const pressed = (event) => {
    if (byId("review").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") go(shown - 1);
    else if (event.key === "ArrowRight") go(shown + 1);
    else if (!event.repeat && byId("keys").checked) {
      const command = Object.keys(commands).find((key) => isPressed(event, key));
      if (!command) return;
      event.preventDefault();
      commands[command]();
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
    say(store ? "" : "Not stored", !store);
    go(Math.max(0, nextOpen(0)));
    // otherwise a browser may drop what it keeps when the disk gets full
    navigator.storage?.persist?.().catch(() => false);
  };
  const ask = () => {
    byId("review").hidden = true;
    byId("start").hidden = false;
    byId("reviewer").value = me;
    byId("reviewer").focus();
  };
  const named = () => {
    const name = byId("reviewer").value.trim();
    byId("who-is-missing").textContent = name ? "" : "Give a name, so that grades can be told apart.";
    if (name) begin(name);
  };

  byId("extent").textContent =
    `Passages: ${items.length}. Questions: ${Object.keys(data.queries).length}.`;
  byId("intro").textContent = data.intro;
  byId("choices").replaceChildren(...data.choices.map(([digit, rubric]) => {
    const button = make(
      "button",
      { type: "button", class: "choice", "data-grade": digit, "aria-keyshortcuts": digit },
      make("kbd", {}, digit), make("span", { class: "rubric" }, rubric),
    );
    button.addEventListener("click", () => grade(digit));
    return button;
  }));
  const deeds = {
    begin: named, leave: ask, undo, export: exported, "done-export": exported,
    previous: () => go(shown - 1), next: () => go(shown + 1),
  };
  for (const [id, deed] of Object.entries(deeds)) byId(id).addEventListener("click", deed);
  // no form: where frames are sandboxed, these aren't sent
  byId("reviewer").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) named();
  });
  document.addEventListener("keydown", pressed);
  window.addEventListener("beforeunload", (event) => {
    if (storing || (isLost && !isExported)) event.preventDefault();
  });
  new ResizeObserver(([entry]) =>
    document.documentElement.style.setProperty("--head", `${entry.target.offsetHeight}px`),
  ).observe(document.querySelector("header"));

  try {
    store = await Store.open(data.pool);
  } catch (error) {
    isLost = true;
    refused(error.message);
  }
  byId("opening").hidden = true;
  if (recalled()) await begin(recalled());
  else ask();
};

review().catch((error) => {
  byId("opening").hidden = true;
  byId("trouble").hidden = false;
  byId("trouble").textContent = `This page can't be shown: ${error.message}`;
  console.error(error);
});
