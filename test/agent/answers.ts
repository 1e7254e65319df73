/** Answers as agents write them, and texts that nobody should have to read. */

/** Name, Markdown, and what people see; an empty text for no message. */
export const samples: readonly (readonly [string, string, string])[] = [
  ['nothing', '', ''],
  ['white space', ' \n\t\n\u3000', ''],
  ['a rule alone', '---', '---'],
  ['a plain sentence', 'Hello there.', 'Hello there.'],
  [
    'Claude: what was done in a repository',
    `I've fixed the failing test. Here's what changed:

## Changes

1. **\`src/parser.ts\`** – the loop stopped one item early:
   \`\`\`ts
   for (let i = 0; i <= items.length; i++)
   \`\`\`
2. **\`test/parser.test.ts\`** – a case for *empty* input

All 42 tests pass. See [the docs](https://example.com/docs#parser) for the rule.`,
    `I've fixed the failing test. Here's what changed:

Changes
1. \`src/parser.ts\` – the loop stopped one item early:
\`\`\`ts
for (let i = 0; i <= items.length; i++)
\`\`\`
2. \`test/parser.test.ts\` – a case for empty input

All 42 tests pass. See the docs: https://example.com/docs#parser for the rule.`,
  ],
  [
    'GPT: sections with rules, loose lists and sources',
    `### ✅ Short answer

Yes — it works.

---

### Details

- **Speed:** about 2× faster

- **Cost:** ~$5 &lt; $10

Sources:
[1]: https://example.com/a
[2]: https://example.com/b

As shown in [the study][1].`,
    `✅ Short answer
Yes — it works.

Details
• Speed: about 2× faster

• Cost: ~$5 < $10

Sources:
[1]: https://example.com/a
[2]: https://example.com/b

As shown in [the study][1].`,
  ],
  [
    'Qwen: marks beside Chinese characters',
    `**结论：**可以。请看**“说明”**部分，或者使用**方法二**。

1. **准备工作：**安装依赖
   - 运行\`npm i\`即可
   - 参见[官方文档](https://例子.中国/文档)。
2. **启动**：\`npm start\`

> **注意：**请勿泄露密钥。`,
    `结论：可以。请看“说明”部分，或者使用方法二。

1. 准备工作：安装依赖
   • 运行\`npm i\`即可
   • 参见官方文档: https://xn--fsqu00a.xn--fiqs8s/%E6%96%87%E6%A1%A3。
2. 启动：\`npm start\`

▎注意：请勿泄露密钥。`,
  ],
  [
    'DeepSeek: a narrow table',
    '| 名称 | 价格 |\n|:---|---:|\n| 苹果 | 5 |\n| **大西瓜** | 12 |',
    '```\n名称   | 价格\n苹果   | 5\n大西瓜 | 12\n```',
  ],
  [
    'a wide table',
    `Compare:

| Name | What it does | Link |
|---|---|---|
| Foo | A very long description of what it does | [site](https://foo.example) |
| Bar | Another<br>line | |`,
    `Compare:

Name: Foo
What it does: A very long description of what it does
Link: site: https://foo.example

Name: Bar
What it does: Another
line`,
  ],
  ['tasks', '- [ ] buy milk\n- [x] call *mum*', '☐ buy milk\n☑ call mum'],
  [
    'addresses, each once',
    'https://a.b/c。好 [https://a.b/c](https://a.b/c) [a.b](https://a.b/) <https://a.b> [x](mailto:x@y.z) [y](#part) [zed](https://z)a',
    'https://a.b/c。好 https://a.b/c https://a.b/ https://a.b x: mailto:x@y.z y zed: https://z a',
  ],
  [
    'quotes and lists inside each other',
    '> one\n> > two\n>\n> - three\n>   1. four\n\n- five\n  > six',
    '▎one\n▎▎two\n▎\n▎- three\n▎  1. four\n\n- five\n  ▎six',
  ],
  [
    'HTML',
    '<details>\n<b>x</b>\n</details>\n\na<br>b <sub>2</sub>',
    '<details>\n<b>x</b>\n</details>\n\na<br>b <sub>2</sub>',
  ],
  [
    'pictures that are no files',
    '![a cat](https://c.at/1.png) ![](data:image/png;base64,AAAA)',
    'a cat: https://c.at/1.png',
  ],
  ['code whose lines are fences', '````md\n```js\nx\n```\n````', '````md\n```js\nx\n```\n````'],
  ['a fence that stays open', 'a\n```py\nprint("**x**")\n', 'a\n```py\nprint("**x**")\n```'],
  ['stars that are no marks', '2 * 3 * 4 = 24, a_b_c, **open', '2 * 3 * 4 = 24, a_b_c, **open'],
  ['struck out text', '~~old~~ new', 'o\u0336l\u0336d\u0336 new'],
  [
    'controls, colours, changes of direction and lone surrogates',
    '\u001b[31mred\u001b[0m\u0000 a\u202eb\u2066c \ud800 d\r\ne',
    'red abc \ufffd d\ne',
  ],
  [
    'what HTML writes with names and numbers, cleaned as all else is',
    '**Caf&eacute;** &#27;[31m &#x202e;x&#x2067; &copy; &hearts;&nbsp;&#10;&#0; &unknown; &amp;lt; a&b;',
    'Café [31m x © ♥  \ufffd &unknown; &lt; a&b;',
  ],
]

/** An answer of about so many code units, with numbered words. */
export function longAnswer(units: number): string {
  let all = ''
  for (let nth = 0; all.length < units; nth++) {
    const text = `Word${nth}. ${'The quick brown fox. '.repeat(12)}`
    const forms = [
      `${text}`,
      `- ${text}\n- Also ${text.slice(text.indexOf(' '))}`,
      `## Chapter ${nth}`,
      `1. **${text.trim()}**`,
    ]
    all += `${forms[nth % 4]}\n\n第一句话。${'这是一个很长的段落，'.repeat(8)}\n\n`
    if (nth % 5 === 0) all += `\`\`\`sh\n${'echo one\n'.repeat(12)}\`\`\`\n\n`
  }
  return all
}

const unit = (text: string, units: number): string => text.repeat(Math.ceil(units / text.length))

/** Lists inside each other, of so many levels, again and again. */
function indented(units: number, levels: number): string {
  let all = ''
  for (let nth = 0; all.length < units; nth++) all += `${' '.repeat(2 * (nth % levels))}- a\n`
  return all
}

const hostile: Record<string, (units: number) => string> = {
  'nested lists one line': units => unit('- ', units),
  'nested quotes': units => unit('> ', units),
  'deep lists': units => indented(units, 200),
  'lists without end': units => {
    let s = ''
    for (let i = 0; s.length < units; i++) s += `${' '.repeat(2 * i)}- a\n`
    return s
  },
  '1.': units => unit('1. ', units),
  'lines of list markers': units => unit(`${'1. '.repeat(200)}\n\n`, units),
  'lines of quotes': units => unit(`${'> '.repeat(200)}\n`, units),
  'long line': units => unit('x', units),
  spaces: units => `a${unit(' ', units)}b`,
  newlines: units => unit('\n', units),
  words: units => unit('word ', units),
  lines: units => unit('line\n', units),
  brackets: units => unit('[', units),
  bang: units => unit('![', units),
  '](': units => unit('](a://', units),
  '[a](': units => unit('[a](', units),
  '[a](b': units => unit('[a](<b', units),
  links: units => unit('[a](b) ', units),
  'nested links': units => unit('[', units / 2) + unit('](a)', units / 2),
  stars: units => unit('*', units),
  'star a': units => unit('*a ', units),
  'a*': units => unit('a*', units),
  'a**': units => unit('a**b', units),
  '*a_': units => unit('*a _b ', units),
  under: units => unit('_a', units),
  '***': units => unit('***a ', units),
  '**a*': units => unit('**a *b ', units),
  cjk: units => unit('**注：', units),
  cjk2: units => unit('中**注：', units),
  ticks: units => unit('`', units),
  'ticks grow': units => {
    let s = ''
    for (let i = 1; s.length < units; i++) s += `${'`'.repeat(i)} `
    return s
  },
  fences: units => unit('```\n~~~\n', units),
  'open fence': units => `\`\`\`\n${unit('code\n', units)}`,
  'tick lines': units => unit('```\n', units),
  tilde: units => unit('~', units),
  '~a': units => unit('~a ', units),
  '~~a': units => unit('~~a ', units),
  'html open': units => unit('<a ', units),
  '<': units => unit('<', units),
  '<!--': units => unit('<!-- ', units),
  '<!-- lines': units => unit('<!--\n\n', units),
  'a<!--': units => unit('a<!--', units),
  '<?': units => unit('a<?', units),
  cdata: units => unit('a<![CDATA[', units),
  '<div': units => unit('<div\n', units),
  '<a href': units => unit('<a href="', units),
  '<a b=': units => `<a ${unit('b="c" ', units)}`,
  'x<a b': units => unit('x<a b="c" ', units),
  table: units => `|a|b|\n|-|-|\n${unit('|c|d|\n', units)}`,
  'table wide': units => `${unit('|a', units / 3)}\n${unit('|-', units / 3)}\n${unit('|b', units / 3)}`,
  pipes: units => `${unit('|', units / 2)}\n${unit('-|', units / 2)}`,
  tables: units => unit('|a|\n|-|\n', units),
  'esc pipes': units => `|a|\n|-|\n|${unit('\\|', units)}`,
  'table rows half': units => unit('|a|b\n', units),
  'table few rows many cols': units => {
    const c = Math.floor(Math.sqrt(units) / 2)
    return `${unit('|a', c * 2)}\n${unit('|-', c * 2)}\n${unit('|\n', units)}`
  },
  'table cols x rows': units =>
    `${unit('|a', units / 3)}|\n${unit('|-', units / 3)}|\n${unit('|\n', units / 3)}`,
  def: units => unit('[a]: b\n', units),
  'defs diff': units => {
    let s = ''
    for (let i = 0; s.length < units; i++) s += `[a${i}]: b\n`
    return s
  },
  'def open': units => `${unit('[a', units)}]: `,
  'def title': units => unit('[a]: b "', units),
  '[^': units => unit('[^a]: ', units),
  url: units => `https://${unit('a/', units)}`,
  urls: units => unit('a://', units),
  http: units => unit('http://', units),
  www: units => unit('www.a.b ', units),
  'www.': units => unit('www.', units),
  mail: units => unit('a@b.', units),
  mail2: units => `${unit('a.', units)}@`,
  mail3: units => `${unit('a', units)}@`,
  mail4: units => unit('a_-', units),
  mails: units => unit('a@b.c ', units),
  'url(': units => `https://a${unit('(', units)}`,
  'url)': units => `https://a${unit(')', units)}`,
  'url;': units => `https://a${unit('&a;', units)}`,
  'url?': units => `https://a${unit('?!', units)}`,
  setext: units => unit('a\n=\n', units),
  'setext lines': units => `${unit('a\n', units)}===`,
  hr: units => `${unit('* ', units)}a`,
  'hr-': units => unit('---\n', units),
  heading: units => unit('# a\n', units),
  'heading #': units => `# ${unit('#', units)}`,
  'heading # #': units => `# ${unit('# ', units)}a`,
  heads: units => unit('#', units),
  escape: units => unit('\\', units),
  'escape*': units => unit('\\*', units),
  amp: units => unit('&amp;', units),
  '&': units => unit('&', units),
  entity: units => unit('&#x', units),
  indent: units => unit('    a\n', units),
  'indent blank': units => unit('    a\n\n', units),
  tabs: units => unit('\t', units),
  tabs2: units => unit('a\t\n', units),
  'blank sp': units => unit('     \n', units),
  br: units => unit('a  \n', units),
  'br sp': units => unit(`a${' '.repeat(500)}b\n`, units),
  'sp\n': units => unit(`${' '.repeat(5000)}\n`, units),
  'list items': units => unit('- a\n', units),
  loose: units => unit('- a\n\n', units),
  'list lazy': units => `- a\n${unit('b\n', units)}`,
  'list blank': units => `- a\n${unit('\n', units)}  b`,
  'list indented': units => `- a\n${unit('  b\n', units)}`,
  'list code': units => `- a\n${unit('  ```\n', units)}`,
  'two lists': units => unit('- a\n* b\n', units),
  'list html': units => unit('- <div>\n', units),
  tasks: units => unit('- [ ] a\n', units),
  num: units => unit('1. a\n', units),
  'list num nested': units => unit('1. a\n   - b\n', units),
  'quote lazy': units => `> a\n${unit('b\n', units)}`,
  'quote items': units => unit('> - a\n', units),
  'quote code': units => unit('> ```\n> a\n', units),
  'quote list quote': units => unit('> - > - a\n', units),
  'quotes apart': units => unit('> a\n\n', units),
  'quote para': units => unit('> a\nb\n\n', units),
  'quote fence open': units => unit('> ```\na\n', units),
  surr: units => unit('\ud800', units),
  nul: units => unit('\0', units),
  flags: units => unit('🇩🇪', units),
  accent: units => `e${unit('\u0301', units)}`,
  esc: units => unit('\x1b]', units),
  esc2: units => unit('\x1b[', units),
  zwj: units => unit('👩‍', units),
  bidi: units => unit('\u202e', units),
  cr: units => unit('\r\n', units),
}

/** Texts that make reading Markdown slow, of about so many code units. */
export const hostileTexts = Object.entries(hostile)
