import { describe, expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { toAnswer } from '../../src/agent/answer.ts'
import { withoutInlinePictures, writeInlinePictures } from '../../src/agent/answer-files.ts'
import { folderOfTest } from '../support/folder.ts'
import { runs } from '../support/properties.ts'
import { hostileTexts, longAnswer, samples } from './answers.ts'

const longestText = 4000
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNiAAAABgADNjd8qAAAAABJRU5ErkJggg==',
  'base64',
)

/** Returns the texts of an answer that has nothing else. */
async function textsOf(markdown: string, folder = '/nowhere'): Promise<string[]> {
  const { parts } = await toAnswer(markdown, { folder })
  return parts.map(part => ('text' in part ? part.text : `<${part.kind} ${part.name}>`))
}

function expectFitting(texts: readonly string[]): void {
  for (const text of texts) {
    expect(text.length).toBeLessThanOrEqual(longestText)
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(16_384)
    expect(text.trim()).not.toBe('')
    expect(text.isWellFormed()).toBe(true)
  }
}

describe('what agents write reads well', () => {
  for (const [name, markdown, expected] of samples)
    test(name, async () => {
      expect(await textsOf(markdown)).toEqual(expected === '' ? [] : [expected])
    })

  test('an answer of 50 KB becomes few messages, cut where it has paragraphs', async () => {
    const markdown = longAnswer(50_000)
    const texts = await textsOf(markdown)
    expectFitting(texts)
    const length = texts.reduce((sum, text) => sum + text.length, 0)
    expect(texts.length).toBeLessThanOrEqual(Math.ceil(length / longestText) + 1)
    // The fewest messages come first: a cut that is worse for a reader saves one.
    const begun = texts.filter(text => /^(Chapter|• |\d+\. |Word|```|第)/.test(text))
    expect(begun.length).toBeGreaterThanOrEqual(texts.length - 2)
    for (let nth = 0; markdown.includes(`Word${nth}.`); nth++)
      expect(texts.filter(text => text.includes(`Word${nth}.`))).toHaveLength(1)
  })
})

describe('where a text is cut', () => {
  const words = (count: number, word = 'word') => Array.from({ length: count }, () => word).join(' ')

  test('before a heading rather than at a paragraph, and at a paragraph rather than in one', async () => {
    const two = await textsOf(`${words(300)}\n\n## Next\n\n${words(300)}\n\n${words(300)}`)
    expect(two.map(text => text.split('\n', 1)[0])).toEqual([words(300), 'Next'])
    const paragraphs = await textsOf(`${words(500)}\n\n${words(500)}`)
    expect(paragraphs).toEqual([words(500), words(500)])
  })

  test('before an item of a list, whose mark stays with it', async () => {
    const items = Array.from({ length: 9 }, (_, nth) => `- **${nth}** ${words(110)}`).join('\n')
    for (const text of await textsOf(items)) expect(text).toMatch(/^• \d/)
  })

  test('an endless line is cut between characters, and into full messages', async () => {
    const family = '👨‍👩‍👧‍👦'
    const texts = await textsOf(family.repeat(1000))
    expect(texts.join('')).toBe(family.repeat(1000))
    for (const text of texts) expect(text.length % family.length).toBe(0)
    expect((await textsOf('x'.repeat(12_000))).map(({ length }) => length)).toEqual([4000, 4000, 4000])
  })

  test('a link and a code block are not cut', async () => {
    const url = `https://example.com/${'a/'.repeat(200)}`
    const code = `\`\`\`\n${'code\n'.repeat(50)}\`\`\``
    for (const before of [3500, 3700, 3900, 3990]) {
      const chinese = '字'.repeat(before)
      const linked = await textsOf(`${chinese}[text](${url})${chinese}`)
      expect(linked.filter(text => text.includes(`text: ${url}`))).toHaveLength(1)
      const coded = await textsOf(`${chinese}\n${code}\n${chinese}`)
      expect(coded.filter(text => text.includes(code))).toHaveLength(1)
      expectFitting([...linked, ...coded])
    }
  })

  test('an indented line after a cut keeps its indentation', async () => {
    const texts = await textsOf(`- **A** ${words(700)}\n  - ${words(700)}\n  - ${words(700)}`)
    expect(texts).toHaveLength(3)
    for (const text of texts.slice(1)) expect(text).toMatch(/^ {2}• word/)
  })
})

describe('files', () => {
  function makeFolder() {
    const root = folderOfTest()
    const folder = join(root, 'agent')
    mkdirSync(folder)
    for (const name of ['plot.png', 'second.png', 'a b.png']) writeFileSync(join(folder, name), png)
    writeFileSync(join(folder, 'report.pdf'), '%PDF-1.4 a report')
    writeFileSync(join(folder, 'fake.png'), 'no picture')
    writeFileSync(join(root, 'secret.txt'), 'secret')
    return { root, folder }
  }

  test('a picture comes where it stands; a linked file comes after the text; each once', async () => {
    const { folder } = makeFolder()
    const markdown =
      'See [the report](report.pdf).\n\n![](plot.png)\n\nand ![two](<a b.png>) and [it](report.pdf) ![](plot.png) end'
    const { parts } = await toAnswer(markdown, {
      folder,
      files: [join(folder, 'plot.png'), join(folder, 'second.png')],
    })
    expect(parts).toEqual([
      { text: 'See the report.' },
      { path: join(folder, 'plot.png'), kind: 'image', name: 'plot.png' },
      { text: 'and' },
      { path: join(folder, 'a b.png'), kind: 'image', name: 'a b.png' },
      { text: 'and it' },
      { text: 'end' },
      { path: join(folder, 'report.pdf'), kind: 'file', name: 'report.pdf' },
      { path: join(folder, 'second.png'), kind: 'image', name: 'second.png' },
    ])
  })

  test('pictures whose bytes are their addresses become files, but not those in code; what is none is counted', async () => {
    const { folder } = makeFolder()
    const address = `data:image/png;base64,${png.toString('base64')}`
    const long = `data:image/png;base64,${Buffer.concat([png, Buffer.alloc(3_000_000)]).toString('base64')}`
    const said = `a ![one](${address}) b ![](${long} "t") c ![two](data:image/png;base64,QUFB) ![](data:,)`
    const { leftOut, text } = await writeInlinePictures(said, folder)
    expect(leftOut).toBe(2)
    const { parts } = await toAnswer(text, { folder })
    expect(parts.map(part => ('text' in part ? part.text : part.kind))).toEqual([
      ...['a', 'image', 'b', 'image', 'c two'],
    ])
    const code = `\`![x](${address})\`\n\`\`\`\n![x](${address})\n\`\`\``
    expect(await writeInlinePictures(code, folder)).toEqual({ text: code, leftOut: 0 })
    const many = `![](${address})`.repeat(12)
    expect((await writeInlinePictures(many, folder)).leftOut).toBe(2)
    expect(withoutInlinePictures(said)).not.toContain('base64')
  })

  test('a name tells nothing about what a file is', async () => {
    const { folder } = makeFolder()
    const { parts } = await toAnswer('![](fake.png)', { folder })
    expect(parts).toMatchObject([{ kind: 'file', name: 'fake.png' }])
  })

  test('what lies outside the folder, is no file, or does not exist stays text', async () => {
    const { folder, root } = makeFolder()
    symlinkSync(join(root, 'secret.txt'), join(folder, 'link.txt'))
    symlinkSync(root, join(folder, 'up'))
    const paths = [
      '../secret.txt',
      join(root, 'secret.txt'),
      'link.txt',
      'up/secret.txt',
      'none.txt',
      '.',
      '%00',
      '/dev/zero',
    ]
    for (const path of [...paths, `file://${root}/secret.txt`]) {
      const shown = ['.', '%00'].includes(path) ? `[x](${path})` : `x: ${path}`
      expect(await textsOf(`[x](${path})`, folder)).toEqual([shown])
      const { parts } = await toAnswer('done', { folder, files: [path] })
      expect(parts).toEqual([{ text: 'done' }])
    }
  })

  test('a path may be absolute, encoded, or an address of a file', async () => {
    const { folder } = makeFolder()
    for (const path of [join(folder, 'plot.png'), `file://${folder}/plot.png`, './plot.png', 'a%20b.png'])
      expect(await textsOf(`![](${path})`, folder)).toEqual([
        `<image ${path.endsWith('b.png') ? 'a b' : 'plot'}.png>`,
      ])
  })

  test('long code becomes a file of its language that only the owner can read', async () => {
    const { folder } = makeFolder()
    const code = Array.from({ length: 61 }, (_, nth) => `print(${nth})`).join('\n')
    const { parts } = await toAnswer(
      `Run it:\n\n\`\`\`Python\n${code}\n\`\`\`\nthen\n\`\`\`sql\n${'x'.repeat(3001)}\n\`\`\``,
      { folder },
    )
    expect(parts).toEqual([
      { text: 'Run it:\n\n📎 code.py\nthen\n📎 code.sql' },
      { path: join(folder, 'outbox/code.py'), kind: 'file', name: 'code.py' },
      { path: join(folder, 'outbox/code.sql'), kind: 'file', name: 'code.sql' },
    ])
    expect(readFileSync(join(folder, 'outbox/code.py'), 'utf8')).toBe(`${code}\n`)
    expect(statSync(join(folder, 'outbox/code.py')).mode & 0o777).toBe(0o600)
    const again = await toAnswer(`\`\`\`python\n${code}\n\`\`\``, { folder })
    expect(again.parts).toMatchObject([{ text: '📎 code (1).py' }, { name: 'code (1).py' }])
  })

  test('code that cannot become a file is sent as text, in fences that are whole', async () => {
    const { folder, root } = makeFolder()
    symlinkSync(root, join(folder, 'outbox'))
    const texts = await textsOf(`\`\`\`js\n${'const a = 1\n'.repeat(900)}\`\`\``, folder)
    expectFitting(texts)
    for (const text of texts)
      expect(text).toMatch(/^```js\n(const a = 1\n)+```(\n\n?```js\n(const a = 1\n)+```)*$/)
    expect(texts.join('').split('const').length).toBe(901)
  })

  test('an answer that nobody reads in a chat becomes a file', async () => {
    const { folder } = makeFolder()
    const { parts } = await toAnswer(`a\u001b[31m\n`.repeat(60_000), { folder, long: 'split' })
    expect(parts).toMatchObject([{ text: expect.stringMatching(/^a\na[\s\S]*📎 a\.md$/) }, { name: 'a.md' }])
    expect(readFileSync(join(folder, 'outbox/a.md'), 'utf8')).toBe('a\n'.repeat(60_000))
  })
})

describe('long answers', () => {
  const folderWithFiles = () => {
    const folder = folderOfTest()
    for (const name of ['one.png', 'two.png']) writeFileSync(join(folder, name), png)
    writeFileSync(join(folder, 'own.csv'), 'a,b')
    return folder
  }
  const many = (count: number, block: (nth: number) => string) =>
    Array.from({ length: count }, (_, nth) => block(nth)).join('\n\n')
  const chinese = `## 关于茶：一篇\n\n${many(75, nth => `${nth}。${'这是一个很长的句子，说一件小事。'.repeat(10)}`)}`
  const page = 'word '.repeat(580)
  const mixed = `${page}\n\n![](one.png)\n\n${page}\n\n![](two.png)\n\n${page}`

  /** Name, Markdown, `long`, and what comes: texts, and the names of files. */
  const cases: readonly [
    name: string,
    said: string,
    long: 'file' | 'split' | undefined,
    parts: readonly string[],
  ][] = [
    ['Chinese', chinese, undefined, ['text', '关于茶 一篇.md']],
    ['Chinese, to be split', chinese, 'split', ['text', 'text', 'text', 'text']],
    ['code blocks', many(800, nth => `\`\`\`sh\necho ${nth}\n\`\`\``), undefined, ['text', 'echo 0.md']],
    ['a list', `- **a** b\n${'- item of a list\n'.repeat(1000)}`, undefined, ['text', 'a b.md']],
    ['no words', '🍵'.repeat(7000), undefined, ['text', 'answer.md']],
    ['an endless line', '字'.repeat(13_000), undefined, ['text', `${'字'.repeat(40)}.md`]],
    ['of three messages, as all marks go', '**word** '.repeat(1700), undefined, ['text', 'text', 'text']],
    ['of three messages', many(3, () => page), 'file', ['text', 'text', 'text']],
    ['of text and pictures', mixed, undefined, ['text', 'one.png', 'text', 'two.png', 'text']],
    [
      'of text and pictures, as a file',
      mixed,
      'file',
      ['text', `${'word '.repeat(8).trim()}.md`, 'one.png', 'two.png'],
    ],
    [
      'its own files and pictures',
      `[t](own.csv)\n\n${many(3, () => page)}\n\n![](one.png)\n\n${many(3, () => page)}\n\n![](two.png)`,
      undefined,
      ['text', 't.md', 'one.png', 'two.png', 'own.csv'],
    ],
    [
      'a file that saves nothing',
      `a\n\n![](one.png)\n\n${page}![](two.png)`,
      'file',
      ['text', 'one.png', 'text', 'two.png'],
    ],
  ]
  for (const [name, said, long, expected] of cases)
    test(name, async () => {
      const folder = folderWithFiles()
      const { parts } = await toAnswer(said, { folder, long })
      expect(parts.map(part => ('text' in part ? 'text' : (part.name ?? '')))).toEqual([...expected])
      expectFitting(parts.flatMap(part => ('text' in part ? [part.text] : [])))
      const file = parts.find(part => 'path' in part && part.path.startsWith(join(folder, 'outbox')))
      if (!file || !('path' in file)) return
      // The whole answer as it was written; its text is shorter than a message, and its fences are closed.
      expect(readFileSync(file.path, 'utf8')).toBe(`${said.trimEnd()}\n`)
      const [{ text = '' } = {}] = parts as { text?: string }[]
      expect(text).toEndWith(`📎 ${file.name}`)
      expect(text.length).toBeLessThan(1300)
      expect((text.match(/^```/gm) ?? []).length % 2).toBe(0)
    })

  test('its first lines end where a reader may stop, with what svc says about the answer', async () => {
    const folder = folderOfTest()
    const { parts } = await toAnswer(chinese, { folder, notes: ['(a note)'] })
    expect(parts[0]).toMatchObject({
      text: expect.stringMatching(/^关于茶：一篇\n0。[\s\S]*事。\n\n… 📎 .*\n\n\(a note\)$/),
    })
    expect(readFileSync(join(folder, 'outbox/关于茶 一篇.md'), 'utf8')).toEndWith('\n\n(a note)\n')
  })

  test('without a place for the file it comes as text', async () => {
    const folder = folderOfTest()
    symlinkSync('/tmp', join(folder, 'outbox'))
    const { parts } = await toAnswer(chinese, { folder })
    expect(parts).toEqual((await toAnswer(chinese, { folder, long: 'split' })).parts)
  })
})

describe('any text', () => {
  const word = fc.integer({ min: 0, max: 35 }).map(number => number.toString(36))
  const inline = fc.constantFrom<(word: string) => string>(
    text => text,
    text => `**${text}**`,
    text => `*${text}*`,
    text => `\`${text}\``,
    text => `~~${text}~~`,
    text => `[${text}](https://a.b)`,
    text => `**${text}：**中文`,
    text => `中**“${text}”**文`,
    text => `<b>${text}</b>`,
    text => `${text}。`,
    text => `${text}👨‍👩‍👧‍👦e\u0301`,
  )
  const block = fc.constantFrom<(text: string) => string>(
    text => `${text}\n\n`,
    text => `# ${text}\n`,
    text => `- ${text}\n`,
    text => `  - ${text}\n`,
    text => `12. ${text}\n`,
    text => `> ${text}\n`,
    text => `- [ ] ${text}\n\n`,
    text => `> - > ${text}\n`,
    text => `\`\`\`\n${text}\n\`\`\`\n`,
    text => `\n| head |\n|---|\n| ${text} |\n`,
    text => `${text}\n---\n`,
    text => `\n    ${text}\n\n`,
  )
  const pieces = fc.array(
    fc.tuple(block, fc.array(fc.tuple(word, inline), { minLength: 1, maxLength: 40 })),
    {
      maxLength: 60,
    },
  )

  test('no word is lost or doubled, the order is kept, and every part fits', async () => {
    await fc.assert(
      fc.asyncProperty(pieces, async list => {
        let nth = 0
        const markdown = list
          .map(([toBlock, words]) =>
            toBlock(words.map(([text, wrap]) => wrap(`w${nth++}q${text}z`)).join(' ')),
          )
          .join('')
        const texts = await textsOf(markdown)
        expectFitting(texts)
        const wanted = markdown.match(/w\d+q[0-9a-z]+?z/g) ?? []
        const arrived = texts.join('\n').replaceAll('\u0336', '')
        expect(arrived.match(/w\d+q[0-9a-z]+?z/g) ?? []).toEqual(wanted)
      }),
      runs(150),
    )
  })

  test('random characters of Markdown lose no letter', async () => {
    const characters = fc.constantFrom(
      ...'ab*_`~[]()!<>|#-=+.:\\&>\n\n\n  \t1',
      '你',
      '：',
      '**',
      '```',
      '  \n',
      '👍🏽',
      '\u0301',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(characters, { maxLength: 400 }), async list => {
        const markdown = list.join('')
        const texts = await textsOf(markdown)
        expectFitting(texts)
        const count = (text: string) => [...text].filter(character => '你👍'.includes(character)).length
        expect(count(texts.join(''))).toBeGreaterThanOrEqual(count(markdown))
      }),
      runs(400),
    )
  })

  for (const [name, make] of hostileTexts)
    test(`ends soon, with parts that fit: ${name}`, async () => {
      expectFitting(await textsOf(make(12_000)))
    })
})
