// The findings table. Names come from anywhere: they reach the page as text nodes alone.
const source = document.getElementById("data");
const tables = globalThis.tracerTables;

function element(tag, text, className) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

// A place's text, whose line number, ".py:102", never breaks.
function placed(text) {
  const node = document.createDocumentFragment();
  text.split(/(\.[A-Za-z]\w{0,4}:\d+)/).forEach((piece, index) => node.append(index % 2 ? element("span", piece, "whole") : piece));
  return node;
}

// Lets a long path or op wrap after its separators; far too long ones lose their middle until the row is opened.
function breakable(text, className) {
  const node = element("span", "", className);
  const short = text.length > 160 ? `${text.slice(0, 90)} … ${text.slice(-60)}` : text;
  for (const part of short.split(/(?<=[./_:])(?![A-Za-z]\w{0,4}:\d)(?<!\.\w+:)/)) {
    node.append(placed(part), document.createElement("wbr"));
  }
  return node;
}

// The end of a long path, which is what tells two places apart.
function fileOf(path) {
  return path.length > 22 && path.includes("/") ? `…/${path.slice(path.lastIndexOf("/") + 1)}` : path;
}

// A cell's first line, and a fainter second one where there is something to say.
function lines(first, second, title) {
  const cell = element("span", "", "lines");
  cell.append(first);
  if (second) {
    cell.append(element("span", "", "faint"));
    cell.lastChild.append(placed(second));
    if (title) cell.lastChild.title = title;
  }
  return cell;
}

// A sentence of a table; what stands between backticks is code.
function prose(text) {
  const node = element("span");
  const pieces = text.split("`");
  if (pieces.length % 2 === 0) node.append(text);
  else pieces.forEach((piece, index) => node.append(index % 2 ? element("code", piece) : piece));
  return node;
}

// DataTables reads a search text that holds "&" as HTML. These two characters never get that far.
function searchable(text) {
  return text.replaceAll("&", "\uff06").replaceAll("<", "\uff1c");
}

// Copies what stands in `block`. A page opened from disk may be refused the clipboard: then the text is selected.
async function copyFrom(block, button) {
  const told = element("span", "Copied");
  try {
    await navigator.clipboard.writeText(block.textContent);
  } catch {
    getSelection().selectAllChildren(block);
    if (!document.execCommand("copy")) told.textContent = "Selected";
  }
  const before = [...button.childNodes];
  if (button.dataset.told) return;
  button.dataset.told = "yes";
  button.replaceChildren(told);
  setTimeout(() => {
    button.replaceChildren(...before);
    delete button.dataset.told;
  }, 1500);
}

function copier(block) {
  const button = element("button", "Copy", "copy");
  button.type = "button";
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    copyFrom(block, button);
  });
  return button;
}

function start(data) {
  const at = Object.fromEntries(data.fields.map((name, index) => [name, index]));
  const text = (row, field) => data.strings[row[at[field]]];
  const severity = Object.fromEntries(data.verdicts.map((verdict, index) => [verdict.name, index]));
  const phases = Object.fromEntries(data.phases.map((name, index) => [name, index]));
  data.rows.forEach((row, index) => row.push(index));
  const numberOf = (row) => row[row.length - 1] + 1;

  function badge(name) {
    const verdict = data.verdicts[severity[name]];
    const node = element("span", "", `badge v-${name}`);
    const sign = element("span", verdict.sign, "sign");
    sign.setAttribute("aria-hidden", "true");
    node.append(sign, verdict.label);
    return node;
  }

  function opener(row) {
    const button = element("button", "", "opener");
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    button.append(badge(text(row, "verdict")));
    button.append(element("span", `: details of finding ${numberOf(row)}`, "unseen"));
    return button;
  }

  function column(field, show, order = (value) => value, type = "string") {
    return {
      data: null,
      type,
      render: (_, kind, row) => {
        const value = text(row, field);
        if (kind === "display") return show(value, row);
        return kind === "filter" ? searchable(value) : order(searchable(value));
      },
    };
  }

  const columns = [
    column("verdict", (_, row) => opener(row), (name) => severity[name], "num"),
    column("mode", (name) => badge(name), (name) => severity[name], "num"),
    column("op", (value, row) => lines(breakable(value, "code"), text(row, "cause"))),
    column("phase", (value) => element("span", value), (name) => phases[name] ?? data.phases.length, "num"),
    column("module", (value) => breakable(value, "code")),
    column("place", (value, row) => {
      const from = text(row, "called_from");
      const first = breakable(fileOf(value) || "not recorded", value ? "code off-paper" : "faint");
      first.title = value;
      const cell = lines(first, from && `from ${fileOf(from)}`, from);
      if (value) first.after(breakable(value, "code on-paper"));
      return cell;
    }),
    {
      data: null,
      type: "num",
      className: "figure",
      orderSequence: ["desc", "asc", ""],
      render: (_, kind, row) => {
        const count = row[at.count];
        return kind === "display" ? element("span", count.toLocaleString("en")) : count;
      },
    },
    { ...column("remedy", prose), className: "print-only" },
    {
      data: null,
      type: "string",
      visible: false,
      render: (_, kind, row) =>
        ["rule", "cause", "why", "function", "called_from", "node", "runs_as", "evidence", "facts", "reason", "about", "subject", "ops", "code", "where"]
          .map((field) => searchable(text(row, field)))
          .join(" \n "),
    },
  ];

  const head = [...document.querySelectorAll("#rows thead th")].map((th) => th.textContent);
  document.querySelector("#rows thead tr").append(element("th", "Details"));
  document.querySelectorAll("#rows thead th")[7].className = "print-only";
  document.getElementById("table").hidden = false;
  for (const link of document.querySelectorAll("a.to")) link.hidden = false;

  const table = tables("#rows").DataTable({
    data: data.rows,
    columns,
    order: [],
    autoWidth: false,
    deferRender: true,
    pageLength: 25,
    lengthMenu: [25, 50, 100, 500],
    layout: { topStart: null, topEnd: null, bottomStart: "pageLength", bottomEnd: "paging" },
    language: { emptyTable: "No finding", zeroRecords: "No finding matches. Clear a filter to see more.", lengthMenu: "_MENU_ rows a page" },
    createdRow: (line, row, _, cells) => {
      line.id = `finding-${numberOf(row)}`;
      cells.forEach((cell, index) => {
        cell.setAttribute("data-label", head[index] || "");
        cell.classList.toggle("none", !cell.textContent);
      });
    },
  });

  // --- rows that open ---------------------------------------------------------------------------------

  function details(row) {
    const list = element("dl", "", "details");
    const add = (label, content) => {
      if (!content) return;
      const pair = element("div");
      pair.append(element("dt", label));
      const value = element("dd");
      value.append(content);
      pair.append(value);
      list.append(pair);
    };
    const code = (field) => {
      const node = text(row, field) && element("code");
      if (node) node.append(placed(text(row, field)));
      return node;
    };
    add("Why", text(row, "why") && prose(text(row, "why")));
    add("Unknown because", text(row, "reason"));
    add("What to do", text(row, "remedy") && prose(text(row, "remedy")));
    if (text(row, "code")) {
      const block = element("pre");
      block.append(element("code", text(row, "code")));
      const paste = element("div", "", "paste");
      paste.append(block, copier(block));
      add("Code to paste", paste);
      add("Where it must stand", text(row, "where") && prose(text(row, "where")));
    }
    add("With the plan's settings", text(row, "planned"));
    add("Note", text(row, "note"));
    if (text(row, "evidence")) {
      const items = element("ul");
      for (const line of text(row, "evidence").split("\n")) items.append(element("li", line));
      add("Evidence", items);
    }
    add("Speaks of", text(row, "subject") && code("subject"));
    if (text(row, "ops")) {
      const items = element("ul", "", "code");
      for (const line of text(row, "ops").split("\n")) items.append(element("li", line));
      add("Matters for these calls", items);
    }
    if (text(row, "op") !== text(row, "subject")) add("Op", code("op"));
    add("Runs as", code("runs_as"));
    add("Place", code("place"));
    add("Called from", code("called_from"));
    add("Function", code("function"));
    add("Module", code("module"));
    add("Autograd node", code("node"));
    add("Facts recorded", code("facts"));
    add("Rule", code("rule"));
    add("Judged by the table of", text(row, "backend"));
    const link = element("a", `#finding-${numberOf(row)}`);
    link.href = link.textContent;
    add("Link", link);
    return list;
  }

  function toggle(row, open = !row.child.isShown()) {
    if (open) row.child(details(row.data()), "opened").show();
    else row.child.hide();
    const line = row.node();
    line.classList.toggle("open", open);
    line.querySelector(".opener").setAttribute("aria-expanded", String(open));
  }

  document.querySelector("#rows tbody").addEventListener("click", (event) => {
    const line = event.target.closest("tr[id^=finding-]");
    if (!line || String(getSelection())) return;
    toggle(table.row(line));
  });

  function openFromAddress() {
    const found = /^#finding-(\d+)$/.exec(location.hash);
    const row = found && table.row(Number(found[1]) - 1);
    if (!row || !row.any()) return;
    const position = table.rows({ order: "applied", search: "applied" }).indexes().toArray().indexOf(row.index());
    if (position < 0) return;
    table.page(Math.floor(position / table.page.len())).draw(false);
    toggle(row, true);
    row.node().scrollIntoView({ block: "center" });
  }

  // --- search, filters, order -------------------------------------------------------------------------

  const control = (id) => document.getElementById(id);
  const shown = control("shown");

  function say() {
    const { recordsDisplay, recordsTotal } = table.page.info();
    const all = recordsTotal.toLocaleString("en");
    shown.textContent = recordsDisplay === recordsTotal ? `All ${all} shown` : `${recordsDisplay.toLocaleString("en")} of ${all} match`;
  }

  const exactly = [["by-verdict", "verdict"], ["by-phase", "phase"], ["by-cause", "cause"], ["by-about", "about"]].filter(([id]) => control(id));
  table.search.fixed("filters", (_, row) => {
    const part = control("by-module").value.trim().toLowerCase();
    if (part && !text(row, "module").toLowerCase().includes(part)) return false;
    return exactly.every(([id, field]) => !control(id).value || control(id).value === text(row, field));
  });

  let waiting = 0;
  function apply() {
    clearTimeout(waiting);
    waiting = setTimeout(() => table.search(searchable(control("search").value)).draw(), 60);
  }
  for (const id of ["search", "by-module"]) control(id).addEventListener("input", apply);
  for (const [id] of exactly) control(id).addEventListener("change", apply);
  control("clear").addEventListener("click", () => {
    for (const id of ["search", "by-module", ...exactly.map(([name]) => name)]) control(id).value = "";
    apply();
  });
  control("sort-by").addEventListener("change", (event) => {
    const index = Number(event.target.value);
    table.order([[index, index === 6 ? "desc" : "asc"]]).draw();
  });

  table.on("draw", say);
  say();
  addEventListener("hashchange", openFromAddress);
  openFromAddress();

  // --- paper: every row, up to what a printer is for --------------------------------------------------

  let length = 0;
  addEventListener("beforeprint", () => {
    length = table.page.len();
    table.page.len(Math.min(2000, data.rows.length)).draw(false);
  });
  addEventListener("afterprint", () => length && table.page.len(length).draw(false));
}

for (const button of document.querySelectorAll(".plan .copy")) {
  button.hidden = false;
  button.addEventListener("click", () => copyFrom(button.previousElementSibling, button));
}
if (source && tables) start(JSON.parse(source.textContent));
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details:not([open])")) {
    folded.open = true;
    addEventListener("afterprint", () => { folded.open = false; }, { once: true });
  }
});
