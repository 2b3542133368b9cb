// ---- a passage: its text, what stands for it in one line, and the words worth marking
const NONE = "–";
const EXCERPT = RULES.excerpt;
const NARROW = 4; // a narrower first line is shown with what follows
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]/u;
const cellsOf = (text) => [...text].reduce((n, sign) => n + (WIDE.test(sign) ? 2 : 1), 0);
const SHOWN = 2000;

const textAt = async (index, at) => {
  if (at == null) return null;
  const starts = index.textStarts;
  let low = 0;
  let high = starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= at) low = middle;
    else high = middle;
  }
  const kept = (await chunk(`texts-${low}`))[at - starts[low]];
  const [text, length] = typeof kept === "string" ? [kept, kept.length] : kept;
  return { text, length };
};

// the first line where it is short, and what follows it; else as many words as fit
const excerptOf = ({ text, length }) => {
  const [line, ...more] = text.trim().split("\n");
  const title = line.replace(/^#+\s+/, "").trim();
  if (title.length <= EXCERPT && (cellsOf(title) >= NARROW || !more.length)) {
    return { excerpt: title, rest: more.join("\n").trim(), isWhole: !more.length && length <= text.length };
  }
  const start = text.trim().slice(0, 2 * EXCERPT).replace(/\s+/g, " ");
  const cut = start.slice(0, EXCERPT).replace(/[\ud800-\udbff]$/, ""); // half a character
  const space = cut.lastIndexOf(" ");
  const isCut = start.length > EXCERPT;
  return { excerpt: isCut ? `${cut.slice(0, space > EXCERPT / 2 ? space : EXCERPT)}…` : cut, rest: null, isWhole: false };
};

// ids: of long ones what tells them apart is in sight, the rest is there for who copies it
const LONG_ID = 20;
const startOf = (names) => {
  let [common] = names;
  for (const name of names) while (!name.startsWith(common)) common = common.slice(0, -1);
  return common.replace(/[\p{L}\p{N}]+$/u, "").length;
};
const shortIds = (ids) => {
  const names = [...new Set(ids)];
  const isShort = names.length < 2 || names.every((name) => name.length <= LONG_ID);
  const start = isShort ? 0 : startOf(names);
  const rests = names.map((name) => name.slice(start));
  const tellsApart = ([head, tail]) =>
    new Set(rests.map((rest) => `${rest.slice(0, head)}…${tail ? rest.slice(-tail) : ""}`)).size === names.length;
  const [head, tail] = [[8, 0], [8, 6], [8, 12], [16, 16]].find(tellsApart) ?? [Infinity, 0];
  return (id) => {
    const isKept = isShort || id.length - start <= LONG_ID;
    const [from, to] = isKept ? [id.length, id.length] : [start + head, id.length - tail];
    const parts = [[id.slice(0, start), "out"], [id.slice(start, from), null], [id.slice(from, to), "out"], [id.slice(to), null]];
    const shown = parts.filter(([part]) => part).map(([part, look]) => make("span", { class: look }, part));
    return make("span", { class: "id", title: id }, ...shown);
  };
};

// ---- words: of the question, and those that a passage shares with the text it is recognised by
const STOP_WORDS = new Set(RULES.stop);
const ENDINGS = RULES.endings.map(([pattern, end]) => [new RegExp(pattern, "u"), end]);
const UNSPACED = RULES.unspaced;
const WORD = new RegExp(`[${UNSPACED}]|(?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}])+`, "gu");
const IS_UNSPACED = new RegExp(`^[${UNSPACED}]$`, "u");
const SHARED_WORDS = 4;
const NEARLY_ALL = 0.9; // where so much is matched, that says nothing

const stemOf = (word) => ENDINGS.reduce((stem, [pattern, end]) => stem.replace(pattern, end), word.toLowerCase());
const wordsOf = (text) =>
  [...text.matchAll(WORD)].map((found) => {
    const [word, at] = [found[0], found.index];
    const isStop = STOP_WORDS.has(word.toLowerCase());
    return { stem: stemOf(word), at, end: at + word.length, isStop, isUnspaced: IS_UNSPACED.test(word) };
  });
// without spaces two letters in a row count as a word
const namesOfWord = (words, number) => {
  const { stem, end, isStop, isUnspaced } = words[number];
  if (!isUnspaced) return isStop ? [] : [stem];
  const [before, after] = [words[number - 1], words[number + 1]];
  return [
    ...(before?.isUnspaced && before.end === words[number].at ? [before.stem + stem] : []),
    ...(after?.isUnspaced && after.at === end ? [stem + after.stem] : []),
  ];
};
const runsOf = (words, length) =>
  words.slice(length - 1).map((_, start) => words.slice(start, start + length).map(({ stem }) => stem).join(" "));

// what to look for in passages: words of a question
const askedWords = (question) => {
  const words = wordsOf(question);
  return new Set(words.flatMap((_, number) => namesOfWord(words, number)));
};
// the text in pieces; what `matched` says too, and the words asked for, are marked
const marked = (text, asked, matched) => {
  const words = wordsOf(text);
  const asWords = words.map((_, number) => (namesOfWord(words, number).some((name) => asked.has(name)) ? "word" : ""));
  let looks = [...asWords];
  const sought = matched ? wordsOf(matched) : [];
  const length = Math.min(SHARED_WORDS, sought.length);
  if (length) {
    const known = new Set(runsOf(sought, length));
    runsOf(words, length).forEach((run, start) => {
      if (known.has(run)) looks.fill("match", start, start + length);
    });
    if (looks.filter((look) => look === "match").length >= NEARLY_ALL * words.length) looks = asWords;
  }
  const pieces = [];
  let done = 0;
  for (let number = 0; number < words.length; number += 1) {
    const look = looks[number];
    if (!look) continue;
    const first = number;
    while (looks[number + 1] === look && (look === "match" || words[number + 1].at === words[number].end)) number += 1;
    const [from, to] = [words[first].at, words[number].end];
    pieces.push(text.slice(done, from), make("mark", { class: look }, text.slice(from, to)));
    done = to;
  }
  return [...pieces, text.slice(done)];
};

// a text below its line: long ones to their first part, the rest on demand
const wholeText = ({ text, length }, body, mark) => {
  const place = make("p", { class: "text", tabindex: "0" }, ...mark(body.slice(0, SHOWN)));
  if (body.length > SHOWN) {
    const more = make("button", { type: "button", class: "more" }, `show all ${body.length.toLocaleString("en")} characters`);
    more.addEventListener("click", () => {
      place.replaceChildren(...mark(body));
      more.remove();
    });
    return [place, more];
  }
  if (length <= text.length) return [place];
  const note = `cut at ${text.length.toLocaleString("en")} of ${length.toLocaleString("en")} characters`;
  return [place, make("p", { class: "quiet" }, note)];
};
