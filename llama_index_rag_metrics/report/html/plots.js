const drawingOf = (markup) => new DOMParser().parseFromString(markup, "text/html").body.firstChild;
const questionsOf = (index, bar) => bar.dataset.questions.split(",").map((at) => index.ids[at]);
const nameOf = (bar) => bar.querySelector("title").textContent;
// the questions of the bar that a link names
const questionsOfBar = async (index, name) => {
  const markups = Object.values(await chunk("figures")).flatMap(Object.values).flat().map(([, markup]) => markup);
  const drawn = markups.filter((markup) => markup.includes("data-questions")).map(drawingOf);
  const bar = drawn.flatMap((each) => [...each.querySelectorAll("[data-questions]")]).find((each) => nameOf(each) === name);
  return bar && questionsOf(index, bar);
};

// ---- plots: drawn in the page for the metric that leads; those of the others are carried
const drawPlots = async (index) => {
  const plots = byId("plots");
  if (!plots) return;
  const select = byId("metric");
  const show = async () => {
    const figures = await chunk("figures");
    const metric = index.metrics[select.value || index.shown] ?? "";
    for (const [kind, by] of Object.entries(figures)) {
      const holder = byId(`figure-${kind}`);
      const variants = by[""] ?? by[metric] ?? [];
      const choice = holder.querySelector("select");
      const [name, markup] = variants.find(([own]) => own === choice?.value) ?? variants[0] ?? ["", ""];
      if (choice) {
        choice.replaceChildren(...variants.map(([own]) => make("option", { value: own }, own)));
        choice.value = name;
      }
      holder.hidden = !variants.length;
      const drawn = drawingOf(markup);
      if (drawn) holder.lastChild.replaceWith(drawn);
    }
  };
  select.addEventListener("change", show);
  for (const variant of plots.querySelectorAll("select")) variant.addEventListener("change", show);
  plots.addEventListener("click", (event) => {
    const bar = event.target.closest("[data-questions]");
    if (bar) window.page?.filter?.(questionsOf(index, bar), nameOf(bar));
  });
  if (select.value && Number(select.value) !== index.shown) await show();
  plots.dataset.ready = "true";
};
