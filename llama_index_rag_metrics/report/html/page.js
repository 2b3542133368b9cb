"use strict";
// questions: searched, filtered by how passages were lost or scores changed, sorted, opened by address
const place = document.getElementById("rag-questions");
const all = [...(place?.querySelectorAll("details.q") ?? [])];
const list = place?.querySelector(".list");

function make(tag, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
}

function choices(label, values) {
  const options = Object.entries(values).map(([value, text]) => make("option", { value }, text));
  const select = make("select", {}, ...options);
  return [make("label", {}, label, " ", select), select];
}

const words = (text) => text.split(" ").filter(Boolean);
const losses = (question) => (question.dataset.loss ?? "").split("|").filter(Boolean);
const changes = (question) => words(question.dataset.change ?? "");
const gains = (question) => words(question.dataset.gains ?? "").map(Number);
const known = (value) => (value === undefined || value === "" || !Number.isFinite(Number(value)) ? Infinity : Number(value));

// what a question is sorted by: less comes first, what isn't known last
const ORDERS = {
  asked: null,
  worst: (question) => known(question.dataset.score),
  loss: (question) => (gains(question).length ? Math.min(...gains(question)) : Infinity),
  gain: (question) => (gains(question).length ? -Math.max(...gains(question)) : Infinity),
};

function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function start() {
  const search = make("input", { type: "search", placeholder: "question, id, words of a passage" });
  const systems = (place.dataset.systems ?? "").split("|").filter(Boolean);
  const shows = { all: "all questions" };
  systems.slice(1).forEach((system, number) => {
    const counts = counted(all.map((question) => changes(question)[number]));
    for (const name of ["better", "same", "worse"]) {
      const than = name === "same" ? `same as ${systems[0]}` : `${name} than ${systems[0]}`;
      if (counts.get(name)) shows[`${name} ${number + 1}`] = `${system} ${than} (${counts.get(name)})`;
    }
  });
  for (const [loss, n] of counted(all.flatMap(losses))) shows[`loss ${loss}`] = `${loss} (${n})`;
  const orders = { asked: "as asked", worst: "lowest score first" };
  if (systems.length) Object.assign(orders, { loss: "largest loss first", gain: "largest gain first" });
  const [showLabel, show] = choices("Show", shows);
  const [orderLabel, order] = choices("Sort", orders);
  const count = make("span", { role: "status" });
  const form = place.querySelector(".controls");
  form.append(make("label", {}, "Search ", search), showLabel, orderLabel, count);
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());

  const texts = new Map();
  const textOf = (question) => {
    if (!texts.has(question)) {
      const parts = [...question.querySelectorAll("summary, td, p, li")];
      texts.set(question, parts.map((part) => part.textContent).join(" ").toLowerCase());
    }
    return texts.get(question);
  };
  const isShown = (question) => {
    const [kind, ...rest] = show.value.split(" ");
    if (kind === "all") return true;
    if (kind === "loss") return losses(question).includes(rest.join(" "));
    return changes(question)[Number(rest[0]) - 1] === kind;
  };
  const update = () => {
    const sought = words(search.value.toLowerCase());
    let n = 0;
    for (const question of all) {
      const hasWords = sought.every((word) => textOf(question).includes(word));
      question.hidden = !(isShown(question) && hasWords);
      n += question.hidden ? 0 : 1;
    }
    count.textContent = n === all.length ? "" : `${n} of ${all.length}`;
  };
  const sort = () => {
    const by = ORDERS[order.value];
    const keys = new Map(all.map((question) => [question, by ? by(question) : 0]));
    const sorted = by ? [...all].sort((one, other) => keys.get(one) - keys.get(other) || 0) : all;
    list.append(...sorted);
  };
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 120);
  });
  show.addEventListener("input", update);
  order.addEventListener("input", sort);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-show]");
    if (!link || ![...show.options].some((option) => option.value === link.dataset.show)) return;
    show.value = link.dataset.show;
    update();
  });
  list.addEventListener("toggle", (event) => {
    if (event.target.open && event.target.id) history.replaceState(null, "", `#${encodeURIComponent(event.target.id)}`);
  }, true);
}

function open() {
  const asked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!asked?.matches("details.q")) return;
  asked.hidden = false;
  asked.open = true;
  asked.scrollIntoView();
}

// tables that say so are ordered by the column whose heading is clicked
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isUp = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const compare = (one, other) => Number(key(one)) - Number(key(other)) || key(one).localeCompare(key(other), "en", { numeric: true });
      for (const body of table.tBodies) {
        body.append(...[...body.rows].sort((one, other) => (isUp ? 1 : -1) * compare(one, other)));
      }
    });
  });
}

if (place) start();
addEventListener("hashchange", open);
open();
