// Elements made of text: nothing that comes from the server is ever read as HTML.

const LONGEST = 300;

/** Return an element with attributes and children; text children are text, whatever they hold. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value") made.value = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}

/** Return text of bounded length, each line in its own direction, so that right-to-left marks disturb nothing. */
export function shown(value, longest = LONGEST) {
  const text = String(value ?? "");
  const short = [...text.slice(0, longest * 2)].slice(0, longest).join("");
  return element("bdi", {}, short.length < text.length ? `${short}…` : short);
}

/** Return a labelled field. */
export function field(label, input) {
  input.id ||= `field-${++field.count}`;
  return element("div", {}, element("label", { for: input.id }, label), input);
}
field.count = 0;

/** Return a badge for the type of an event. */
export function badge(kind) {
  return element("span", { class: `badge ${kind.replace(".", "-")}` }, kind);
}

export function moment(time) {
  return time ? new Date(time).toLocaleTimeString() : "";
}
