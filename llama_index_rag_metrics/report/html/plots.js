// ---- plots: drawn in the page for the metric that leads; those of the others are carried
const drawPlots = async (index, { chunk }) => {
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
      const drawn = new DOMParser().parseFromString(markup, "text/html").body.firstChild;
      if (drawn) holder.lastChild.replaceWith(drawn);
    }
  };
  select.addEventListener("change", show);
  for (const variant of plots.querySelectorAll("select")) variant.addEventListener("change", show);
  plots.addEventListener("click", (event) => {
    const bar = event.target.closest("[data-questions]");
    if (!bar) return;
    const ids = bar.dataset.questions.split(",").map((at) => index.ids[at]);
    window.page?.filter?.(ids, bar.querySelector("title").textContent);
  });
  if (select.value && Number(select.value) !== index.shown) await show();
  plots.dataset.ready = "true";
};
