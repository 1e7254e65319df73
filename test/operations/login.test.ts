/** login where the door can talk back to the person. */
import { expect, test } from 'bun:test'
import { createDirectCall, type Question } from '../../src/model/call.ts'
import type { LoginStatus } from '../../src/model/login.ts'
import { invoke } from '../../src/operations/gate.ts'
import { verbs } from '../../src/operations/tools.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

/** One call of the tool; `answers` are what the person types, one after the other. */
function call(t: TestGateway, input: object, answers?: (string | undefined)[]) {
  const asked: Question[] = []
  const done = invoke(
    verbs.login,
    t.gateway,
    { session_name: 'a', timeout: 4, ...input },
    {
      ...createDirectCall(),
      ...(answers && {
        ask: async (question: Question) => {
          asked.push(question)
          return answers.shift()
        },
      }),
    },
    silentLog,
  ) as Promise<LoginStatus>
  return { asked, done }
}

/** A login that waits for its digits. @returns the right ones */
async function scanned(t: TestGateway): Promise<string> {
  const first = await call(t, {}).done
  const { verify_code } = await t.sandbox.scan({ qrcode: first.qr_url!, confirm: true })
  return verify_code!
}

test('the QR code is an image too, if one is asked for, in each answer of the login', async () => {
  await using t = await withGateway({ sessions: [], switches: { verify_code: 'on' } })
  const plain = await call(t, {}).done
  for (const qr of [undefined, 'text'])
    expect(Object.keys(await call(t, { timeout: 0, qr }).done)).toEqual(Object.keys(plain))
  const { qr_svg, ...svg } = await call(t, { timeout: 0, qr: 'svg' }).done
  expect(svg).toEqual(plain)
  expect(qr_svg).toStartWith('<svg ')
  const { qr_png, ...png } = await call(t, { timeout: 0, qr: 'png' }).done
  expect(png).toEqual(plain)
  expect(Buffer.from(qr_png!, 'base64').toString('latin1')).toStartWith('\x89PNG\r\n')
  expect(await failure(call(t, { qr: 'gif' }).done)).toMatchObject({ code: 'invalid_arguments', field: 'qr' })
})

test('the digits are asked for in the same call, again when they are wrong, and the login goes on', async () => {
  await using t = await withGateway({ sessions: [], switches: { verify_code: 'on' } })
  const right = await scanned(t)
  const wrong = right === '0000' ? '1111' : '0000'
  const { asked, done } = call(t, {}, [wrong, ` ${right} `])
  expect(['scaned', 'confirmed']).toContain((await done).status)
  expect(asked).toEqual([
    { field: 'verify_code', text: expect.stringContaining('shows a number') },
    { field: 'verify_code', text: expect.stringContaining('did not accept') },
  ])
})

test('who types nothing, cannot be asked, or gave digits gets the status instead', async () => {
  await using t = await withGateway({ sessions: [], switches: { verify_code: 'on' } })
  const right = await scanned(t)
  const silent = call(t, {}, [undefined])
  expect((await silent.done).status).toBe('need_verifycode')
  expect(silent.asked).toHaveLength(1)
  expect((await call(t, { timeout: 0 }).done).status).toBe('need_verifycode')
  const given = call(t, { verify_code: right === '0000' ? '1111' : '0000' }, [right])
  expect(await given.done).toMatchObject({
    status: 'need_verifycode',
    message: expect.stringContaining('wrong'),
  })
  expect(given.asked).toEqual([])
})

test('the log has a line when a login begins, one for its digits, and one when it ends, however often it is looked at', async () => {
  for (const verify_code of ['off', 'on'] as const) {
    await using t = await withGateway({ sessions: [], switches: { verify_code } })
    const lines = async () =>
      (await t.gateway.audit.list({ limit: 100, after: 0 })).map(
        ({ operation, outcome, subject }) => `${operation} ${subject} ${outcome}`,
      )
    const { qr_url } = await call(t, {}).done
    for (let nth = 0; nth < 5; nth++) await call(t, { timeout: 0 }).done
    expect(await lines()).toEqual(['login a done'])
    const seen = await t.sandbox.scan({ qrcode: qr_url!, confirm: true })
    let last: LoginStatus | undefined
    for (let nth = 0; nth < 20 && last?.status !== 'confirmed'; nth++) {
      const code = last?.status === 'need_verifycode' ? { verify_code: seen.verify_code } : {}
      last = await call(t, { timeout: 2, ...code }).done
    }
    expect(last?.status).toBe('confirmed')
    // The digits may bring the end.
    const all = await lines()
    expect(all).toEqual(Array(all.length).fill('login a done'))
    expect(all.length).toBeWithin(2, verify_code === 'on' ? 4 : 3)
  }
})
