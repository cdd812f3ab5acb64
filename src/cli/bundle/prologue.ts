// The beginning of a file, which says nothing any more behind something else: its `#!` and its directives.

// The end of a line is what `.` leaves out, for the language too.
const SHEBANG = /^#!.*(?:\r\n|[^])?/
const LINE = /.*/y
const BLANK = /\s*/y
const DIRECTIVE = /'[^'\\\n\r]*(?:\\(?:\r\n|[^])[^'\\\n\r]*)*'|"[^"\\\n\r]*(?:\\(?:\r\n|[^])[^"\\\n\r]*)*"/y
/** Behind a string on a line of its own: what makes an expression of the two. */
const GOES_ON = /\+(?!\+)|-(?!-)|[.,([*/%<>=&|^?:`]|!=|in(?:stanceof)?\b/y

/** The place behind them, and whether that is a directive: one that a `;` has to end then. */
export function prologueOf(text: string): { end: number; isDirective: boolean } {
  let end = SHEBANG.exec(text)?.[0].length ?? 0
  let isDirective = false
  for (let at = end; ;) {
    DIRECTIVE.lastIndex = skipBlank(text, at)
    if (!DIRECTIVE.test(text)) return { end, isDirective }
    const literalEnd = DIRECTIVE.lastIndex
    const next = skipBlank(text, literalEnd)
    const isEnded = text[next] === ';' || next === text.length || text[next] === '}'
    GOES_ON.lastIndex = next
    if (!isEnded && (!/[\n\r\u2028\u2029]/.test(text.slice(literalEnd, next)) || GOES_ON.test(text)))
      return { end, isDirective }
    end = literalEnd
    isDirective = true
    at = text[next] === ';' ? next + 1 : next
  }
}

/** Behind all spaces and comments from there on. */
function skipBlank(text: string, from: number): number {
  for (let at = from; ;) {
    BLANK.lastIndex = at
    BLANK.test(text)
    at = BLANK.lastIndex
    if (text.startsWith('//', at)) {
      LINE.lastIndex = at
      LINE.test(text)
      at = LINE.lastIndex
    } else if (text.startsWith('/*', at)) {
      const found = text.indexOf('*/', at + 2)
      at = found < 0 ? text.length : found + 2
    } else return at
  }
}
