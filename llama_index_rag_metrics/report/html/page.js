// ---- what every part of the page uses
const page = {};
window.page = page;

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

const trouble = (error) => {
  const place = byId("trouble");
  place.hidden = false;
  place.textContent = `This part of the report can't be shown: ${error.message}`;
  console.error(error);
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
  for (const place of document.querySelectorAll(".command")) {
    place.append(copyButton("Copy", () => place.firstChild.textContent));
  }
  byId("actions").append(copyButton("Copy as Markdown", () => chunk("markdown")));
  const index = await chunk("index");
  const metric = byId("metric");
  index.metrics.forEach((name, at) => metric.append(option(at, name)));
  metric.value = index.shown ?? 0;
  byId("choice").hidden = index.metrics.length < 2 || !(index.ids || byId("figures"));
  if (index.ids) {
    const checks = toCheck(index);
    drawChecks(index, checks);
    await drawTable(index, checks);
  }
  await drawPlots(index);
};
// a page counts as loaded when its questions are there: `--print-to-pdf` prints what is loaded
const waiting = make("iframe", { hidden: true });
document.body.append(waiting);
waiting.contentDocument?.open();
start().catch(trouble).finally(() => {
  waiting.contentDocument?.close();
  waiting.remove();
});
