// Makes tables sortable. Without this script they are tables all the same, in the order that matters most.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    if (head.hasAttribute("data-fixed")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const numbers = head.classList.contains("n");
      // Numbers begin with the largest, text with its beginning.
      const descending = before ? before === "ascending" : numbers;
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const value = (row) => {
        const text = row.cells[column].dataset.value ?? row.cells[column].textContent;
        return numbers ? Number(text) : text;
      };
      const order = (a, b) => (numbers ? value(a) - value(b) : value(a).localeCompare(value(b)));
      const rows = [...body.rows].sort((a, b) => (descending ? order(b, a) : order(a, b)));
      body.append(...rows);
    });
  });
}
