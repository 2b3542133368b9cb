const root = document.documentElement.dataset.content_root;
const query = new URLSearchParams(location.search).get("q")?.trim() ?? "";
const MOST = 20;

function item(page) {
  const entry = document.createElement("li");
  for (const part of [page, ...page.sub_results.filter((each) => each.url !== page.url).slice(0, 2)]) {
    const link = document.createElement("a");
    link.href = part.url;
    link.textContent = part.title ?? page.meta.title;
    const context = document.createElement("p");
    context.className = "context";
    context.innerHTML = part.excerpt; // Pagefind escapes it, but for its own marks
    const place = document.createElement(part === page ? "div" : "section");
    place.append(link, context);
    entry.append(place);
  }
  return entry;
}

async function search() {
  document.querySelector("input.sidebar-search").value = query;
  const pagefind = await import(new URL(`${root}pagefind/pagefind.js`, location.href));
  await pagefind.options({ ranking: { metaWeights: { title: 5, keywords: 8 } }, excerptLength: 25 });
  const { results } = await pagefind.search(query);
  const pages = await Promise.all(results.slice(0, MOST).map((result) => result.data()));
  const heading = document.createElement("h2");
  heading.textContent = results.length ? `Pages about “${query}”` : `No page says “${query}”`;
  const list = document.createElement("ul");
  list.className = "search";
  list.append(...pages.map(item));
  document.getElementById("search-results").replaceChildren(heading, list);
}

async function searchFiles() {
  for (const name of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"]) {
    await new Promise((loaded) => {
      const script = document.createElement("script");
      script.src = root + name;
      script.onload = loaded;
      document.head.append(script);
    });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (location.protocol === "file:") searchFiles();
  else if (query) search();
});
