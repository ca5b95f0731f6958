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

// DataTables reads a text that holds "&" as HTML when it sorts. These two characters never get that far.
function sortable(text) {
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
  const placeOf = Object.fromEntries(data.fields.map((name, index) => [name, index]));
  const severity = Object.fromEntries(data.verdicts.map((verdict, index) => [verdict.name, index]));
  const phases = Object.fromEntries(data.phases.map((name, index) => [name, index]));

  // A row is the numbers of its cells, and its position from 0.
  const rows = data.rows.map((cells, at) => ({ cells, at }));
  const number = (row, field) => row.cells[placeOf[field]];
  const text = (row, field) => data.strings[number(row, field)];
  const isNumber = (field) => data.numbers.includes(field);
  const told = (row, field) => (isNumber(field) ? number(row, field).toLocaleString("en") : text(row, field));
  const lineOf = (row) => text(row, "called_from") || text(row, "location");
  const numberOf = (row) => row.at + 1;
  // What a gate let pass, by the position of the finding.
  const accepted = new Map(data.accepted);
  const acceptance = (row) => data.strings[accepted.get(row.at)];
  // Seeded draws of like modules are one row until it is unfolded: its first finding stands for the others.
  const folded = new Map(data.folds.flatMap((group) => group.map((index) => [index, group])));
  const unfolded = new Set();
  const foldOf = (row) => folded.get(row.at);
  const addressOf = (row) => `finding-${numberOf(row)}`;

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

  // Shows each finding of a row that stands for several, or takes them back.
  function unfolder(row) {
    const group = foldOf(row);
    if (!group || group[0] !== row.at) return null;
    const words = () => (unfolded.has(group) ? "one row again" : `and ${(group.length - 1).toLocaleString("en")} more seeded draws`);
    const button = element("button", words(), "unfold faint");
    button.type = "button";
    button.setAttribute("aria-expanded", String(unfolded.has(group)));
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      if (!unfolded.delete(group)) unfolded.add(group);
      button.textContent = words();
      button.setAttribute("aria-expanded", String(unfolded.has(group)));
      table.draw();
    });
    return button;
  }

  // A column of the table shows the field that it is named by, and more beside it.
  function column(field, show, order = (value) => value, type = "string") {
    return {
      name: field,
      data: null,
      type,
      render: (_, kind, row) => {
        const value = text(row, field);
        return kind === "display" ? show(value, row) : order(sortable(value));
      },
    };
  }

  const columns = [
    column("verdict", (_, row) => (acceptance(row) ? lines(opener(row), "accepted") : opener(row)), (name) => severity[name], "num"),
    column("deterministic_mode", (name) => badge(name), (name) => severity[name], "num"),
    column("op", (value, row) => {
      const cell = lines(breakable(value, "code"), text(row, "cause"));
      const more = unfolder(row);
      if (more) cell.append(more);
      return cell;
    }),
    column("phase", (value) => element("span", value), (name) => phases[name] ?? data.phases.length, "num"),
    column("module", (value) => breakable(value, "code")),
    column("location", (value, row) => {
      const from = text(row, "called_from");
      const first = breakable(fileOf(value) || "not recorded", value ? "code off-paper" : "faint");
      first.title = value;
      const cell = lines(first, from && `from ${fileOf(from)}`, from);
      if (value) first.after(breakable(value, "code on-paper"));
      return cell;
    }),
    {
      name: "count",
      data: null,
      type: "num",
      className: "figure",
      orderSequence: ["desc", "asc", ""],
      render: (_, kind, row) => {
        const count = number(row, "count");
        return kind === "display" ? element("span", count.toLocaleString("en")) : count;
      },
    },
    { ...column("remedy", prose), className: "print-only" },
  ].map((one) => ({ ...one, searchable: false }));

  const columnOf = (field) => columns.findIndex(({ name }) => name === field);
  const head = [...document.querySelectorAll("#rows thead th")].map((th) => th.textContent);
  document.querySelectorAll("#rows thead th")[columnOf("remedy")].className = "print-only";
  document.getElementById("table").hidden = false;
  for (const one of document.querySelectorAll(".to")) one.hidden = false;

  const table = tables("#rows").DataTable({
    data: rows,
    columns,
    order: [],
    autoWidth: false,
    deferRender: true,
    pageLength: 25,
    lengthMenu: [25, 50, 100, 500],
    layout: { topStart: null, topEnd: null, bottomStart: "pageLength", bottomEnd: "paging" },
    language: { emptyTable: "No finding", zeroRecords: "No finding matches. Clear a filter to see more.", lengthMenu: "_MENU_ rows a page" },
    createdRow: (line, row, _, cells) => {
      line.id = addressOf(row);
      cells.forEach((cell, index) => {
        cell.setAttribute("data-label", head[index] || "");
        cell.classList.toggle("none", !cell.textContent);
      });
    },
  });

  // --- rows that open ---------------------------------------------------------------------------------

  // How a detail looks, by the word that its column gives.
  const looks = {
    text: (value) => value,
    prose,
    code: (value) => {
      const node = element("code");
      node.append(placed(value));
      return node;
    },
    lines: (value) => listed(value),
    "code-lines": (value) => listed(value, "code"),
    paste: (value) => {
      const block = element("pre");
      block.append(element("code", value));
      const node = element("div", "", "paste");
      node.append(block, copier(block));
      return node;
    },
  };

  function listed(value, className) {
    const items = element("ul", "", className);
    for (const line of value.split("\n")) items.append(element("li", line));
    return items;
  }

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
    add("Accepted", acceptance(row));
    for (const { field, label, look } of data.details) {
      const value = told(row, field);
      const isToldAlready = field === "op" && value === text(row, "subject");
      if (value && !isToldAlready) add(label, looks[look](value));
    }
    const again = element("pre");
    const rule = text(row, "rule");
    const explain = /^[a-z0-9-]+$/.test(rule) && !/-(unlisted|opaque|no-table|no-device|not-reviewed)$/.test(rule);
    again.tabIndex = 0;
    again.append(element("code", `${data.command}${explain ? `\ntracer explain ${rule} --torch ${data.torch}` : ""}`));
    const commands = element("div", "", "paste");
    commands.append(again, copier(again));
    add("Judge it again", commands);
    const link = element("a", `#${addressOf(row)}`);
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
    if (!line || String(getSelection()) || event.target.closest("a, .unfold")) return;
    toggle(table.row(line));
  });

  // --- what the page filters by -----------------------------------------------------------------------

  const control = (id) => document.getElementById(id);
  const shown = control("shown");
  // Chosen on the page and not in a field: a line of code.
  let line = "";

  const fields = [["by-verdict", "verdict"], ["by-phase", "phase"], ["by-backend", "backend"], ["by-cause", "cause"], ["by-about", "about"]];
  // Each field with what its value is compared with.
  const exactly = [
    ...fields.map(([id, field]) => [id, (row) => text(row, field)]),
    ["by-gate", (row) => (acceptance(row) === undefined ? "left" : "accepted")],
  ].filter(([id]) => control(id));
  const searched = data.fields.map((_, index) => index).filter((index) => !isNumber(data.fields[index]));
  let lower = null;
  // For each word that is searched for, which strings have it.
  let sought = [];
  const having = (word) => (lower ??= data.strings.map((one) => one.toLowerCase())).map((one) => one.includes(word));
  function matches(row) {
    const module = text(row, "module");
    if (line && lineOf(row) !== line) return false;
    const part = control("by-module").value.trim().toLowerCase();
    if (part && !module.toLowerCase().includes(part)) return false;
    if (!exactly.every(([id, value]) => !control(id).value || control(id).value === value(row))) return false;
    return sought.every((has) => searched.some((index) => has[row.cells[index]]));
  }
  let onPaper = false;
  const stands = (row) => {
    const group = foldOf(row);
    return !group || group[0] === row.at || onPaper || unfolded.has(group) || !matches(rows[group[0]]);
  };
  table.search.fixed("filters", (_, row) => matches(row) && stands(row));

  function say() {
    const { recordsDisplay, recordsTotal } = table.page.info();
    const all = recordsTotal.toLocaleString("en");
    const hidden = folded.size ? rows.filter((row) => matches(row) && !stands(row)).length : 0;
    const met = recordsDisplay + hidden;
    const counted = met === recordsTotal ? `All ${all} shown` : `${met.toLocaleString("en")} of ${all} match`;
    control("folded").textContent = hidden ? "Seeded draws of like modules are one row." : "";
    shown.textContent = counted;
  }

  let waiting = 0;
  function apply(after = 60) {
    clearTimeout(waiting);
    const draw = () => {
      sought = control("search").value.toLowerCase().split(/\s+/).filter(Boolean).map(having);
      chips();
      table.draw();
    };
    if (after) waiting = setTimeout(draw, after);
    else draw();
  }

  // What was chosen on the page, each with a way to take it back.
  function chips() {
    const made = [];
    const chip = (words, name, undo) => {
      const button = element("button", "", "chip");
      button.type = "button";
      button.append(`${words} `, breakable(name, "code"), element("span", " ×", "off"));
      button.lastChild.setAttribute("aria-hidden", "true");
      button.append(element("span", ": show all again", "unseen"));
      button.addEventListener("click", () => {
        undo();
        control("search").focus();
      });
      made.push(button);
    };
    if (line) chip("line", line, () => onlyLine(""));
    control("chips").replaceChildren(...made);
  }

  function seeFindings() {
    document.getElementById("findings").scrollIntoView({ block: "start" });
  }

  for (const id of ["search", "by-module"]) control(id).addEventListener("input", () => apply());
  for (const [id] of exactly) control(id).addEventListener("change", () => apply(0));
  control("clear").addEventListener("click", () => {
    for (const id of ["search", "by-module", ...exactly.map(([name]) => name)]) control(id).value = "";
    line = "";
    pressLine();
    apply(0);
  });
  control("sort-by").addEventListener("change", (event) => {
    const field = event.target.value;
    table.order([[columnOf(field), field === "count" ? "desc" : "asc"]]).draw();
  });

  // --- your lines -------------------------------------------------------------------------------------

  const lineButtons = [...document.querySelectorAll("button.only")];
  function pressLine() {
    for (const button of lineButtons) button.setAttribute("aria-pressed", String(Boolean(line) && button.dataset.line === line));
  }
  function onlyLine(place) {
    line = place;
    pressLine();
    apply(0);
  }
  for (const button of lineButtons) {
    button.addEventListener("click", () => {
      onlyLine(button.dataset.line === line ? "" : button.dataset.line);
      if (line) seeFindings();
    });
  }
  pressLine();

  // --- addresses --------------------------------------------------------------------------------------

  function openFromAddress() {
    const found = /^#finding-(\d+)$/.exec(location.hash);
    if (!found) return;
    const row = table.row(Number(found[1]) - 1);
    if (!row.any()) return;
    const group = foldOf(row.data());
    if (group && group[0] !== row.index()) {
      unfolded.add(group);
      table.draw(false);
    }
    let position = table.rows({ order: "applied", search: "applied" }).indexes().toArray().indexOf(row.index());
    if (position < 0) {
      control("clear").click();
      position = table.rows({ order: "applied", search: "applied" }).indexes().toArray().indexOf(row.index());
    }
    table.page(Math.floor(position / table.page.len())).draw(false);
    toggle(row, true);
    row.node().scrollIntoView({ block: "center" });
  }

  table.on("draw", say);
  if (folded.size) table.draw();  // the first drawing knew of no filter
  else say();
  addEventListener("hashchange", openFromAddress);
  openFromAddress();

  // --- paper: every row, up to what a printer is for --------------------------------------------------

  let length = 0;
  addEventListener("beforeprint", () => {
    length = table.page.len();
    onPaper = true;
    table.page.len(Math.min(2000, rows.length)).draw(false);
  });
  addEventListener("afterprint", () => {
    onPaper = false;
    if (length) table.page.len(length).draw(false);
  });
}

for (const button of document.querySelectorAll("main .copy")) {
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
