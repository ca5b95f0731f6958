// --- runs that were compared: the picture of all calls ------------------------------------------------

function picture(figure) {
  const { spans, names, states } = JSON.parse(document.getElementById("calls-data").textContent);
  const svg = figure.querySelector("svg");
  const total = Number(svg.dataset.total);
  const height = svg.viewBox.baseVal.height;
  const marks = [...figure.querySelectorAll(".marks a")];
  const ticks = [...figure.querySelectorAll(".ticks span")];
  const said = document.getElementById("call-said");
  const closest = Math.min(total, 20);
  let [from, width, at] = [0, total, 0];

  function place(node, calls) {
    const left = ((calls - from) / width) * 100;
    node.hidden = left < 0 || left > 100;
    node.style.left = `${left}%`;
  }

  function show(begin, calls) {
    width = Math.min(Math.max(calls, closest), total);
    from = Math.min(Math.max(begin, 0), total - width);
    svg.setAttribute("viewBox", `${from} 0 ${width} ${height}`);
    for (const mark of marks) place(mark, Number(mark.dataset.at));
    for (const tick of ticks) place(tick, (Number(tick.dataset.left) * total) / 100);
  }

  const spanAt = (call) => {
    let [low, high] = [0, spans.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (spans[middle][0] <= call) low = middle;
      else high = middle - 1;
    }
    return low;
  };

  function tell(index) {
    at = index;
    const [begin, calls, state, , step, phase, module] = spans[index];
    said.textContent = `Step ${step}, ${names[phase]}, ${names[module]}: ${calls.toLocaleString("en")} ${calls === 1 ? "call" : "calls"} from ${begin.toLocaleString("en")} on: ${states[state]}.`;
  }

  function zoom(by, around = from + width / 2) {
    const wide = Math.min(Math.max(width * by, closest), total);
    show(around - ((around - from) / width) * wide, wide);
  }

  const acts = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => show(from - width / 2, width), right: () => show(from + width / 2, width), all: () => show(0, total),
  };
  for (const button of figure.querySelectorAll(".zoom button")) button.addEventListener("click", acts[button.dataset.zoom]);
  for (const hidden of figure.querySelectorAll(".to")) hidden.hidden = false;
  const callAt = (event) => {
    const box = svg.getBoundingClientRect();
    return from + ((event.clientX - box.left) / box.width) * width;
  };
  svg.addEventListener("pointermove", (event) => tell(spanAt(callAt(event))));
  svg.addEventListener("dblclick", (event) => zoom(0.4, callAt(event)));
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, callAt(event));
  }, { passive: false });
  svg.tabIndex = 0;
  svg.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(0.5, spans[at][0]);
    else if (event.key === "-") zoom(2, spans[at][0]);
    else if (event.key === "Escape") show(0, total);
    else if (event.key === "Home" || event.key === "End") tell(event.key === "Home" ? 0 : spans.length - 1);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") tell(Math.min(Math.max(at + (event.key === "ArrowRight" ? 1 : -1), 0), spans.length - 1));
    else return;
    const [begin, calls] = spans[at];
    if (begin < from || begin + calls > from + width) show(begin + calls / 2 - width / 2, width);
    event.preventDefault();
  });
  for (const mark of marks) {
    mark.addEventListener("click", () => {
      const call = Number(mark.dataset.at);
      tell(spanAt(call));
      if (width > 400) show(call - 100, 200);
    });
  }
}

const calls = document.getElementById("calls-strip");
if (calls) picture(calls);
