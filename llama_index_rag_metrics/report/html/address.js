// ---- the address: which question is open, by which metric, among which questions
const readAddress = () => new URLSearchParams(location.hash.slice(1));
const writeAddress = (values) => {
  const known = Object.entries(values).filter(([, value]) => value != null && value !== "");
  try {
    history.replaceState(null, "", `#${new URLSearchParams(known)}`);
  } catch (error) {
    if (error.name !== "SecurityError") throw error; // a page within a notebook has no address
  }
};
const linkTo = (index, at) => {
  const metric = byId("metric").value;
  const known = { q: index.ids[at], ...(Number(metric) === index.shown ? {} : { metric: index.metrics[metric] }) };
  return `${location.href.split("#")[0]}#${new URLSearchParams(known)}`;
};

// ---- what can be copied: links, commands, Markdown
const copied = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = make("textarea", { class: "unseen" }, text);
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  return field.remove();
};
const copyButton = (label, text) => {
  const button = make("button", { type: "button", class: "copy" }, label);
  button.addEventListener("click", async () => {
    try {
      await copied(await text());
      button.textContent = "Copied";
    } catch (error) {
      button.textContent = `Can't copy: ${error.message}`;
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
};
const commandOf = (command) =>
  make("p", { class: "command" }, make("code", {}, command), copyButton("Copy", () => command));

// data stays text in Markdown, too: one line, without signs that steer
const escaped = (text) =>
  text.replace(/[\s\p{Cc}\p{Cf}]+/gu, " ").trim().replace(/[\\`*_[\]<>#@|~&]/g, (sign) => `&#${sign.codePointAt(0)};`);
const COPIED = 10;
const itemMarkdown = (id, text, ...remarks) => {
  const name = /[`\s\p{Cc}\p{Cf}]/u.test(id) ? escaped(id) : `\`${id}\``;
  const words = [...remarks.filter(Boolean), text ? escaped(excerptOf(text).excerpt) : ""].filter(Boolean);
  return [name, ...words].join(" · ");
};
const questionMarkdown = (index, question) => {
  const lines = [`**${escaped(question.text || question.id)}** (${escaped(question.id)})`, "", ...question.why.flatMap((line) => [escaped(line), ""])];
  const labelled = labelledOf(question).map(({ id, text, where }) => {
    const places = where.map(([place, systems]) => escaped(systems ? `${systems}: ${place}` : place));
    return `- ${itemMarkdown(id, text, places.join("; "))}`;
  });
  if (labelled.length) lines.push("Relevant:", "", ...labelled.slice(0, COPIED), "");
  question.answers.forEach((answer, system) => {
    const score = `${index.metrics[byId("metric").value]} ${number(question.scores[system], question.digits)}`;
    lines.push(`${escaped(index.systems[system])}, ${escaped(score)}:`, "");
    if (!answer || answer.error != null || !answer.ids.length) {
      lines.push(answer?.error != null ? `failed: ${escaped(answer.error)}` : answer ? "nothing retrieved" : "no ranking known");
    } else {
      lines.push(...answer.ids.slice(0, COPIED).map((id, position) => {
        const [rank, isHit] = [ranksOf(answer)[position], answer.why?.[position]];
        const item = itemMarkdown(id, question.textOf(answer.texts, position), isHit ? "**hit**" : "");
        return rank == null ? `- again: ${item}` : `${rank}. ${item}`;
      }));
    }
    lines.push("");
  });
  return lines.join("\n");
};
