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

const split = (text, sign) => (text ?? "").split(sign).filter(Boolean);
const losses = (question) => split(question.dataset.loss, "|");
const gains = (question) => split(question.dataset.gains, " ").map(Number);
const change = (gain) => gain > 1e-12 ? "better" : gain < -1e-12 ? "worse" : isNaN(gain) ? "unknown" : "same";

const ORDERS = {
  written: (question, number) => -Math.abs(gains(question)[number - 1] ?? 0),
  asked: (question) => Number(question.dataset.asked ?? 0),
  worst: (question) => Number(question.dataset.score ?? Infinity),
  gain: (question) => -Math.max(...gains(question).filter((gain) => !isNaN(gain))) || 0,
};

function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function shows(systems) {
  const named = { all: "all questions" };
  systems.slice(1).forEach((system, number) => {
    const counts = counted(all.map((question) => change(gains(question)[number])));
    const baseline = systems["stages" in place.dataset ? number : 0];
    for (const name of ["better", "same", "worse"]) {
      const than = `${name} ${name === "same" ? "as" : "than"} ${baseline}`;
      if (counts.get(name)) named[`${name} ${number + 1}`] = `${system} ${than} (${counts.get(name)})`;
    }
  });
  for (const [loss, n] of counted(all.flatMap(losses))) named[`loss ${loss}`] = `${loss} (${n})`;
  return named;
}

const late = (question) => question.querySelector("noscript");

function words(question) {
  const folded = make("template", { innerHTML: late(question)?.textContent ?? "" }).content;
  const parts = [question, folded].flatMap((part) => [...part.querySelectorAll("summary, td, p, li")]);
  return parts.map((part) => part.textContent).join(" ").toLowerCase();
}

function start() {
  const search = make("input", { type: "search", placeholder: "question, id or passage" });
  const systems = split(place.dataset.systems, "|");
  const isCompared = all.some((question) => gains(question).some((gain) => !isNaN(gain)));
  let orders = { asked: "as asked" };
  if (all[0]?.dataset.score) orders = { written: isCompared ? "largest loss first" : "worst first", asked: "as asked" };
  if (isCompared) Object.assign(orders, { gain: "largest gain first", worst: "lowest score first" });
  const [showLabel, show] = choices("Show", shows(systems));
  const [orderLabel, order] = choices("Sort", orders);
  const count = place.querySelector("[role=status]");
  const ofAll = count.textContent;
  const form = place.querySelector(".controls");
  form.append(make("label", {}, "Search ", search), showLabel, orderLabel);
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  const textOf = (question) => (question.words ??= words(question));
  const isShown = (question) => {
    const [kind, ...rest] = show.value.split(" ");
    if (kind === "all") return true;
    if (kind === "loss") return split(rest.join(" "), "|").some((loss) => losses(question).includes(loss));
    return change(gains(question)[Number(rest[0]) - 1]) === kind;
  };
  const update = () => {
    const sought = split(search.value.toLowerCase(), " ");
    for (const question of all) {
      question.hidden = !(isShown(question) && sought.every((word) => textOf(question).includes(word)));
    }
    const n = all.filter((question) => !question.hidden).length;
    count.textContent = n === all.length ? ofAll : `${n} of ${all.length} questions`;
  };
  const system = () => Number(show.value.match(/^(?:better|same|worse) (\d+)$/)?.[1] ?? 0);
  const arrange = () => {
    const keys = new Map(all.map((question) => [question, ORDERS[order.value](question, system())]));
    list.append(...[...all].sort((one, other) => keys.get(one) - keys.get(other) || 0));
  };
  const choose = () => {
    for (const range of place.querySelectorAll("b[data-each]")) {
      range.dataset.range ??= range.textContent;
      const each = range.dataset.each.split("|");
      range.textContent = system() ? `${each[0]} → ${each[system()]}` : range.dataset.range;
    }
    update();
    arrange();
  };
  search.addEventListener("input", update);
  show.addEventListener("input", choose);
  order.addEventListener("input", arrange);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-show]");
    if (!link) return;
    const value = link.dataset.show;
    show.value = value;
    if (show.selectedIndex < 0) {
      const text = value.replace("loss ", "").replaceAll("|", ", or ");
      show.append(make("option", { value, selected: true }, text));
    }
    choose();
  });
}

document.addEventListener("toggle", (event) => {
  const folded = late(event.target);
  if (folded) folded.outerHTML = folded.textContent;
  for (const cell of event.target.querySelectorAll(".ranks td:last-child")) if (cell.textContent.length > 120) cell.tabIndex = 0;
  for (const cell of event.target.querySelectorAll(".ranks tr:not(.cut) td:not(:last-child)")) {
    cell.dataset.head = cell.closest("table").rows[0].cells[cell.cellIndex].textContent;
  }
  if (event.target.open && event.target.matches(".list > .q")) history.replaceState(null, "", `#${encodeURIComponent(event.target.id)}`);
}, true);

function open() {
  const asked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!asked?.matches("details.q")) return;
  asked.hidden = false;
  asked.open = true;
  asked.scrollIntoView();
}

if (place) start();
addEventListener("hashchange", open);
open();
