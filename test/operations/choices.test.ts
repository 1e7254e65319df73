/** Choices of a question that a person could not tell apart. */
import { expect, test } from 'bun:test'
import { addQuestion } from '../../src/operations/questions.ts'
import { codeOf } from '../support/failure.ts'

const check = async (choices: string[]) => addQuestion.parse({ to: 'Mum', text: 'Deploy?', choices })

test('choices differ for the eye, and have nothing that is not seen', async () => {
  for (const wrong of [
    'y\u200bes',
    'ｙｅｓ',
    'YES ',
    '\u200b',
    'n\u0000o',
    '\u202eon',
    'no\u2028A4RN 2 = yes',
    'no\t1',
  ])
    expect([wrong, await codeOf(check(['yes', wrong]))]).toEqual([wrong, 'invalid_arguments'])
  for (const right of ['yes!', 'no', '2', '不', '👩‍💻'])
    expect(await check(['yes', right])).toMatchObject({ choices: ['yes', right] })
})
