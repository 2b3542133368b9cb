// ---- tables whose rows a reader may order: each heading becomes a button
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim();
  };
  const compared = (left, right) => typeof left === "number" && typeof right === "number"
    ? left - right : String(left).localeCompare(String(right), undefined, { numeric: true });
  const sort = (column, falling) => {
    for (const body of table.tBodies) {
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      const known = rows.filter(([value]) => value !== "–");
      known.sort(([left], [right]) => (falling ? -1 : 1) * compared(left, right));
      const unknown = rows.filter(([value]) => value === "–");
      body.append(...[...known, ...unknown].map(([, row]) => row));
    }
    heads.forEach((head, number) => {
      if (number === column) head.ariaSort = falling ? "descending" : "ascending";
      else head.ariaSort = null;
    });
  };
  heads.forEach((head, column) => {
    const button = make("button", { type: "button" }, head.textContent);
    button.addEventListener("click", () => sort(column, head.ariaSort === "ascending"));
    head.replaceChildren(button);
  });
  heads[0].ariaSort = "ascending";
}
