/** What a service says first. That its addresses follow is tested by test/readme.test.ts. */
import { expect, test } from 'bun:test'
import { listFirstSteps } from '../../src/cli/first-step.ts'
import { configFromValues } from '../../src/config.ts'
import { silentLog } from '../../src/platform/log.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

const panel = 'http://127.0.0.1:8002'
const docs = 'http://127.0.0.1:8000/docs'

const stepsOf = (t: TestGateway, pages: Parameters<typeof listFirstSteps>[1]) =>
  listFirstSteps(
    { config: configFromValues({ basePath: t.dir }), gateway: t.gateway, log: silentLog, sandbox: undefined },
    pages,
  )

test('the panel comes first, then the docs, then the command; a panel with sign-in by its link', async () => {
  await using t = await withGateway({ sessions: [] })
  const button: string = (await Bun.file(new URL('../../locales/en.json', import.meta.url)).json())[
    'welcome.go'
  ]
  const [open, ...more] = await stepsOf(t, { panel, docs })
  expect(more).toEqual([])
  expect(open!.url).toBe(panel)
  expect(open!.text).toStartWith(`Open ${panel} `)
  const [signIn] = await stepsOf(t, { panel: '', docs })
  expect(signIn!.url).toBeUndefined()
  for (const step of [open, signIn]) expect(step!.text).toContain(`"${button}"`)
  expect(await stepsOf(t, { docs })).toEqual([{ url: docs, text: expect.stringContaining(`Open ${docs},`) }])
  expect(await stepsOf(t, {})).toEqual([{ text: expect.stringContaining(`svc login -d ${t.dir}`) }])
})

test('with a connected account nothing is left to do; one that expired is logged in again', async () => {
  await using t = await withGateway()
  expect(await stepsOf(t, { panel })).toEqual([])
  // The same person logs in elsewhere.
  t.sandbox.bot(t.bots.get('default')!.user_id)
  await t.until('expired', async () => (await t.gateway.accounts.list())[0]?.status === 'expired')
  const [step] = await stepsOf(t, { panel })
  expect(step!.text).toContain(`svc login default -d ${t.dir}`)
})

test('a store that cannot be read does not keep the service from starting', async () => {
  await using t = await withGateway({ sessions: [] })
  const list = () => Promise.reject(new Error('no disk'))
  const gateway = { ...t.gateway, accounts: { ...t.gateway.accounts, list } } as never
  expect(await stepsOf({ ...t, gateway, dir: t.dir }, { panel })).toEqual([])
})
