/** What programs print for terminals, and the text that is left. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { toPlainText } from '../../src/agent/terminal.ts'
import { runs } from '../support/properties.ts'

const esc = '\u001b'
const bell = '\u0007'
const st = `${esc}\\`

/** Name, what is printed, and the text. */
const outputs: readonly (readonly [string, string, string])[] = [
  [
    'colours',
    `${esc}[1;31mred${esc}[0m ${esc}[38;2;1;2;3mtrue${esc}[m ${esc}[38:5:9mcolon${esc}[0K`,
    'red true colon',
  ],
  ['a title with BEL', `${esc}]0;title${bell}Hi`, 'Hi'],
  ['a title with ST, whose text has a path', `${esc}]0;C:\\WINDOWS\\cmd.exe${st}Hi`, 'Hi'],
  [
    'a link, whose text stays',
    `see ${esc}]8;id=1;https://a.b/c${st}the docs${esc}]8;;${st}.`,
    'see the docs.',
  ],
  ['a link with BEL', `${esc}]8;;https://a.b${bell}docs${esc}]8;;${bell}`, 'docs'],
  ['marks of a shell', `${esc}]133;A${bell}$ ${esc}]133;B${bell}ls\n${esc}]633;D;0${bell}ok`, '$ ls\nok'],
  ['a notice, also in two lines', `${esc}]777;notify;a;b${bell}x${esc}]9;one\ntwo${st}y`, 'xy'],
  ['a folder and a context', `${esc}]7;file://h/d${st}${esc}]3008;start=1;user=me${st}x`, 'x'],
  ['a picture', `${esc}]1337;File=inline=1:AAAA${bell}${esc}_Gf=100;AAAA${st}${esc}Pq#0;1~~${st}x`, 'x'],
  ['DCS, SOS, PM, APC', `${esc}P1$r0m${st}a${esc}Xsos${st}b${esc}^pm${st}c${esc}_apc${st}d`, 'abcd'],
  ['what tmux hands on', `${esc}Ptmux;${esc}${esc}]0;t${bell}${st}x`, 'x'],
  ['a title of screen', `${esc}ktitle${st}x`, 'x'],
  ['C1 controls', '\u009b31mred\u009b0m\u009d0;t\u009c \u0090q\u009cx\u0085y', 'red x\ny'],
  [
    'character sets, keypad, cursor',
    `${esc}(B${esc}=${esc}>${esc}7${esc}8${esc}[?25l${esc}[?2004h${esc}#8x`,
    'x',
  ],
  ['a colour of the console', `${esc}]P1aabbccx${esc}]Ry`, 'xy'],
  ['a title that does not end', `${esc}]0;never\nnext`, 'next'],
  ['a title that another sequence breaks off', `${esc}]0;title${esc}[31mred`, 'red'],
  ...['', '[', '[3', '[38;5', ']', ']0;ti', ']8;;http://a', 'P1', '_G', '(', `]0;t${esc}`].map(
    cut => [`the end cuts ESC ${cut}`, `done${esc}${cut}`, 'done'] as const,
  ),
  ['progress', 'Loading 10%\rLoading 100%\rThe answer is 7.', 'The answer is 7.'],
  ['progress that gets shorter', 'Loading 100%\rDone', 'Done'],
  ['progress that is wiped with spaces', 'Loading…\r         \rAnswer', 'Answer'],
  ['progress that is wiped and gone', `Loading…\r${esc}[K`, ''],
  ['progress that a new line ends', 'get 50%\rget 100%\r\ndone\r\n', 'get 100%\ndone'],
  [
    'a bar of a package manager',
    `${esc}[1G[##  ]${esc}[0K${esc}[1G[####]${esc}[2K${esc}[1Gadded 2`,
    'added 2',
  ],
  ['a spinner', '|\b/\b-\b\\\b \bok', 'ok'],
  ['a percentage', 'get:  1%\b\b\b 99%\b\b\b\b100%', 'get: 100%'],
  ['bold by writing twice', 'N\bNA\bAM\bME\bE _\bx', 'NAME x'],
  ['line ends of Windows', 'a\r\nb\r\n', 'a\nb'],
  ['line ends of Windows, twice', 'a\r\r\nb', 'a\nb'],
  [
    'several lines, drawn again',
    `a 1\nb 1\n${esc}[2A${esc}[2Ka 2\n${esc}[2Kb 2\n${esc}[2A\ra 3\n`,
    'a 3\nb 2',
  ],
  ['lines that are gone', `asking\nthinking\n${esc}[2F${esc}[JAnswer`, 'Answer'],
  ['a screen that is drawn again', `${esc}[2J${esc}[Hframe 1${esc}[2J${esc}[1;1Hframe 2`, 'frame 2'],
  ['steps instead of spaces', `hello${esc}[1Cworld${esc}[20Gend`, 'hello world        end'],
  ['other controls', 'a\u0000b\u0001c\u007fd\u0007', 'abcd'],
  ['pages', 'a\fb\vc', 'a\nb\nc'],
  ['a byte order mark and empty lines', '\ufeff\n \n  text  \n\n', '  text'],
  ['nothing of it', 'a\tb\n你好 👨‍👩‍👧‍👦 e\u0301', 'a\tb\n你好 👨‍👩‍👧‍👦 e\u0301'],
]

describe('of what is printed, the text is left:', () => {
  test.each(outputs)('%s', (_name, printed, text) => {
    expect(toPlainText(printed)).toBe(text)
  })
})

test('a text between any sequences stays, and nothing of the sequences', () => {
  const sequence = fc.constantFrom(
    ...[`${esc}[31m`, `${esc}[0K`, `${esc}]0;title${bell}`, `${esc}]8;;http://a${st}`, `${esc}P1;2q${st}`],
    ...[`${esc}(B`, `${esc}[?25h`, '\u009b1m', '\u009d2;t\u009c', `${esc}_x${st}`, bell, '\u0000'],
  )
  const word = fc.constantFrom('a', 'b1', '你', '👍', ' c', 'd;', '[', ']', '0m', '\\', 'x\n')
  fc.assert(
    fc.property(fc.array(fc.tuple(word, sequence), { maxLength: 60, size: 'max' }), pairs => {
      const text = pairs.map(([one]) => one).join('')
      const expected = toPlainText(text)
      expect(toPlainText(pairs.map(([one, mark]) => one + mark).join(''))).toBe(expected)
    }),
    runs(500),
  )
})

const longUnits = [`${esc}]`, '\u009d', `${esc}[`, esc, '\r', '\b', 'a\b', `${esc}[500C`, `${esc}[500Cx`]
test.each([...longUnits, `${esc}Ptmux;`, `${esc}[1A\n\n`, `${esc}[500;500Hx`, `${esc}]x${bell}`])(
  'a megabyte of %j takes no long time and no much longer text',
  unit => {
    expect(toPlainText(unit.repeat(1_000_000 / unit.length)).length).toBeLessThan(5_000_000)
  },
)
