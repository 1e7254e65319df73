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
])('who wrote %s, and is asked %s', (wrote, about, isChinese) => {
  expect(isChineseFor([wrote], about)).toBe(isChinese)
})
