// Colours of the style sheet, for what is drawn on a canvas.

/** Return a colour of the style sheet by its name, in the scheme that is in force. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
