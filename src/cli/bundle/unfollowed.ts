// What a file does with others as it runs, of which a bundle knows nothing, as far as its words tell.

import { posix } from 'node:path'

export type Unfollowed = 'thread' | 'process' | 'required' | 'found' | 'named' | 'sent'

export interface Place {
  what: Unfollowed
  line: number
  /** Where it is written down: from the file on, or from the working directory on. */
  beside?: string | undefined
  inPlace?: string | undefined
  /** The very file. */
  isItself: boolean
}

/** By the names of Node's own functions, and those that a file gives them. */
export function unfollowedIn(text: string): Place[] {
  const code = withoutComments(text)
  const calls = callsIn(code)
  const named = [...code.matchAll(BY_PLACE)]
    .filter(({ index }) => !calls.some((call) => call.start <= index && index < call.end))
    .map((found) => ({ what: 'named' as const, start: found.index, end: found.index, ...targetOf(found[0]) }))
  return [...calls, ...named].map(({ what, start, beside, inPlace, isItself = false }: Call) => ({
    what,
    line: code.slice(0, start).split('\n').length,
    beside,
    inPlace,
    isItself,
  }))
}

/** Lines that are one as a whole, or start as one within a block, are empty. */
export function withoutComments(text: string): string {
  return text.replaceAll(/^[ \t]*(?:\/\/|\*).*$/gm, '')
}

interface Call extends Pick<Place, 'what' | 'beside' | 'inPlace'> {
  isItself?: boolean
  start: number
  end: number
}

function callsIn(code: string): Call[] {
  return kindsIn(code).flatMap(([what, pattern]) =>
    [...code.matchAll(pattern)].flatMap(({ index, 0: head }): Call[] => {
      const end = endOfCall(code, index + head.length)
      const words = constantIn(code, code.slice(index + head.length, end))
      if (what === 'sent') return NAMED_FUNCTION.test(words) ? [{ what, start: index, end }] : []
      const target = targetOf(words)
      const isKnown = target.beside !== undefined || target.inPlace !== undefined
      if (what === 'thread' && /\beval\s*:\s*true\b/.test(words)) return []
      if (what === 'found' && target.inPlace === undefined) return []
      // A package by its name is installed for that.
      if (what === 'required' && !isKnown && /^\s*(?:['"][\w@]|`[\w@][^`$]*`)/.test(words)) return []
      const ofTheFile = what === 'required' || what === 'found' ? { beside: target.inPlace } : target
      return [{ what, start: index, end, isItself: ITSELF.test(words), ...ofTheFile }]
    }),
  )
}

/** The words of a call, with the text for a constant that they start with. */
function constantIn(code: string, words: string): string {
  const name = /^\s*(\w+)\s*[,)]/.exec(words)?.[1]
  const text = name && new RegExp(`\\bconst\\s+${name}\\s*=\\s*(${STRING})`).exec(code)?.[1]
  return text ? words.replace(name, () => text) : words
}

const ITSELF =
  /^\s*(?:new\s+URL\s*\(\s*|(?:\w+\.)?fileURLToPath\s*\(\s*)?(?:import\.meta\.(?:url|filename)|__filename)\s*[,)]/

const LONGEST_CALL = 10_000

/** Behind the bracket that closes it; brackets within strings count too, which is near enough. */
function endOfCall(code: string, from: number): number {
  let depth = 1
  for (let at = from; at < Math.min(code.length, from + LONGEST_CALL); at += 1) {
    if (code[at] === '(') depth += 1
    else if (code[at] === ')') depth -= 1
    if (depth === 0) return at + 1
  }
  return Math.min(code.length, from + LONGEST_CALL)
}

const STRING = `['"\`][^'"\`$\\n]+['"\`]`
const URL_OF_FILE = `\\bnew\\s+URL\\s*\\(\\s*(${STRING})\\s*,\\s*import\\.meta\\.url`
const JOINED = `\\b(?:join|resolve)\\s*\\(\\s*(?:__dirname|import\\.meta\\.dirname)((?:\\s*,\\s*${STRING})+)`
const RESOLVED = `\\b(?:import\\.meta|require)\\.resolve\\s*\\(\\s*(['"\`]\\.[^'"\`$\\n]+['"\`])`
const BY_PLACE = new RegExp(`${URL_OF_FILE}|${JOINED}`, 'g')
const FIRST = new RegExp(
  `^\\s*(?:(?:\\w+\\.)*fileURLToPath\\s*\\(\\s*)?(?:\\w+\\.)?(?:${URL_OF_FILE}|${JOINED}|${RESOLVED})`,
)
const PATH = /^\s*['"`](\.{1,2}\/[^'"`$\n]*)(?:\$|['"`]\s*(\+)?)/

/** The file that the first of the words name; of a name that is made from its start on, the folder. */
function targetOf(words: string): Pick<Place, 'beside' | 'inPlace'> {
  const found = FIRST.exec(words)
  const joined = found?.[1] ?? found?.[2] ?? found?.[3]
  if (joined !== undefined) {
    const parts = [...joined.matchAll(/['"`]([^'"`]+)['"`]/g)].map(([, part]) => part ?? '')
    return { beside: posix.join(...parts) }
  }
  const plain = PATH.exec(words)
  if (plain?.[1] === undefined) return {}
  const isMade = plain[2] !== undefined || plain[0].endsWith('$')
  return { inPlace: isMade ? plain[1].slice(0, plain[1].lastIndexOf('/') + 1) : plain[1] }
}

/** Of the libraries that drive browsers. */
const SENT = /\.(?:evaluate(?:Handle|OnNewDocument|All)?|\$\$?eval|addInitScript|waitForFunction)\s*\(/g

const NAMED_FUNCTION =
  /\b(?:function\*?|class)\s+\w|\b(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:function\b|class\b|\([^()]*\)\s*=>|\w+\s*=>)/

function kindsIn(code: string): [Unfollowed, RegExp][] {
  const kinds: [Unfollowed, RegExp][] = [['sent', SENT]]
  if (code.includes('worker_threads')) {
    const bare = namesOf('Worker', 'worker_threads', code).map((name) => `|${name}`)
    const whole = wholeOf('worker_threads', code).map((name) => `|${name}\\.Worker`)
    kinds.push(['thread', new RegExp(`\\bnew\\s+(?:(?!)${[...whole, ...bare].join('')})\\s*\\(`, 'g')])
  }
  if (code.includes('child_process')) {
    const bare = namesOf('fork', 'child_process', code).map((name) => `|(?<!\\.)\\b${name}`)
    const whole = wholeOf('child_process', code).map((name) => `|\\b${name}\\.fork`)
    kinds.push(['process', new RegExp(`(?:(?!)${[...whole, ...bare].join('')})\\s*\\(`, 'g')])
  }
  if (!code.includes('createRequire')) {
    kinds.push(['found', /\brequire\.resolve\s*\(/g])
  } else {
    const make = `(?:${namesOf('createRequire', 'module', code).join('|')})\\s*\\(`
    const made = [
      ...code.matchAll(new RegExp(`\\b(\\w+)\\s*(?::\\s*[\\w.]+\\s*)?=\\s*(?:[^=;\\n]*\\.)?${make}`, 'g')),
    ].map(([, name]) => name)
    const requires = [`${make}[^)]*\\)`, ...made].join('|')
    kinds.push(['required', new RegExp(`(?<!\\.)\\b(?:${requires})(?:\\.resolve)?\\s*\\(`, 'g')])
  }
  return kinds
}

/** The names that a file has a module of Node's by as a whole. */
function wholeOf(module: string, code: string): string[] {
  const from = `['"](?:node:)?${module}['"]`
  const bound = [
    ...code.matchAll(
      new RegExp(`\\bimport\\s+(?:\\*\\s*as\\s+)?(\\w+)[^'";]{0,300}?\\bfrom\\s*${from}`, 'g'),
    ),
    ...code.matchAll(new RegExp(`\\b(\\w+)\\s*=\\s*(?:await\\s+)?(?:require|import)\\s*\\(\\s*${from}`, 'g')),
  ]
  return bound.map(([, name]) => name ?? '')
}

/** The name of a thing of a module of Node's, and those that the file has it by, but not where they mean another's. */
function namesOf(name: string, module: string, code: string): string[] {
  const renamed = code.matchAll(new RegExp(`\\b${name}(?:\\s+as\\s+|\\s*:\\s*)(\\w+)`, 'g'))
  const others = [
    ...code.matchAll(
      new RegExp(`\\bimport\\s+([^'";]{0,300}?)\\bfrom\\s*['"](?!(?:node:)?${module}['"])`, 'g'),
    ),
    ...code.matchAll(
      new RegExp(
        `\\b(?:const|let|var)\\s+([^=;]{0,300}?)=\\s*require\\(\\s*['"](?!(?:node:)?${module}['"])`,
        'g',
      ),
    ),
    ...code.matchAll(/\b((?:class|function)\s+\w+)/g),
  ].map(([, bound]) => bound ?? '')
  const names = [name, ...[...renamed].map(([, other]) => other ?? '')]
  return names.filter(
    (one) => !others.some((bound) => new RegExp(`\\b${one}\\s*(?:[,}]|$)`).test(bound.trim())),
  )
}
