// What pods of tests run: one program each, given to Node as text, so that it is the same in an image.

const say = 'console.log'
const stay = 'setInterval(() => {}, 1e6)'
const endWith = (code: number): string => `process.on('SIGTERM', () => process.exit(${code}))`

export const programs = {
  /** Ends with 0 when asked. */
  patient: `${endWith(0)}; ${say}('up'); ${stay}`,
  /** Answers at the port of its variable PORT. */
  listens: `${endWith(0)}; require('http').createServer((_, answer) => answer.end('here')).listen(process.env.PORT, '127.0.0.1')`,
  fails: `console.error('no luck'); process.exit(3)`,
  ignoresSigterm: `process.on('SIGTERM', () => ${say}('no')); ${say}('up'); ${stay}`,
  usesMemory: `const all = []; for (;;) all.push(Buffer.alloc(5e6, 1))`,
  showsEnv: `${say}(JSON.stringify(process.env))`,
  /** Counts its starts in its volume, and looks for what it left on its disk. */
  remembers: `const fs = require('fs'), file = process.env.LONGSHORE_VOLUME + '/starts';
    const starts = 1 + Number(fs.existsSync(file) && fs.readFileSync(file, 'utf8'));
    fs.writeFileSync(file, String(starts));
    ${say}(starts + ' ' + fs.existsSync('mark')); fs.writeFileSync('mark', '')`,
  /** A child in its group, and another one that is in none of its own making but its session. */
  hasChildren: `const { spawn } = require('child_process'), options = { stdio: 'ignore' };
    const deaf = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1e6)";
    const children = [1, 2].map(() => spawn(process.execPath, ['-e', deaf], options));
    ${say}(JSON.stringify(children.map(({ pid }) => pid))); ${endWith(0)}; ${stay}`,
  /** Numbered lines, many in one write: what comes in the instant between copying a log and emptying it would be lost. */
  counts: (lines: number): string => `let n = 0; ${endWith(0)};
    const timer = setInterval(() => {
      ${say}(Array.from({ length: 1000 }, () => 'line ' + (n += 1)).join('\\n'))
      if (n >= ${lines}) clearInterval(timer) }, 20)`,
} as const
