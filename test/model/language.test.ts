/** In which language svc speaks to a person. */
import { expect, test } from 'bun:test'
import { isChineseFor } from '../../src/model/language.ts'

test.each([
  ['QRT2 1', '部署吗？', true],
  ['7KTP 2', '部署吗？', true],
  ['kxy9', 'Deploy now?', false],
  ['👍', 'Deploy now?', false],
  ['/stop', '部署吗？', true],
  ['YES', '部署吗？', false],
  ['ok, do that', '部署吗？', false],
  ['好', 'Deploy now?', true],
  ['What does 你好 mean?', '部署吗？', false],
  ['Please explain the word 部署 in one sentence', '部署吗？', false],
  ['用 Claude Code 看一下 README', 'Deploy now?', true],
  ['帮我 review 一下', 'Deploy now?', true],
  ['7KTP 2', 'Deploy 部署 of the new version?', false],
])('who wrote %s, and is asked %s', (wrote, about, isChinese) => {
  expect(isChineseFor([wrote], about)).toBe(isChinese)
})

test('the newest message that has a language decides, however many others do', () => {
  expect(isChineseFor(['/stop', '2', 'How is the weather?', '部署', '你好', '好的', '谢谢'])).toBe(false)
  expect(isChineseFor(['👍', '你好', 'hello there', 'how are you'])).toBe(true)
})
