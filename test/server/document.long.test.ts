import { expect, test } from 'bun:test'
import { startAdmin } from '../support/admin.ts'
import { checkedClient, spectral, toolsDir } from '../support/openapi-judges.ts'
import { startRest } from '../support/rest.ts'

const documentAt = async (url: string) => (await fetch(`${url}/openapi.json`)).text()

test('Spectral has nothing to say of any document', async () => {
  await using rest = await startRest({ token: 'a-long-enough-token' })
  await using admin = await startAdmin({ sessions: [], start: false })
  for (const url of [rest.url, admin.url]) expect(await spectral('oas', await documentAt(url))).toEqual([])
  const events = await (await fetch(`${rest.url}/asyncapi.json`)).text()
  const found = await spectral('asyncapi', events)
  // It wants an address and an email of whom to contact, which this project does not have.
  expect(found.filter(({ code }) => code !== 'asyncapi-info-contact-properties')).toEqual([])
}, 300_000)

test('a generated client type-checks with TypeScript 5', async () => {
  await using rest = await startRest()
  const typescript = Bun.resolveSync('typescript/package.json', toolsDir)
  expect((await Bun.file(typescript).json()).version).toStartWith('5.')
  expect(await checkedClient(await documentAt(rest.url), toolsDir)).toEqual({
    status: 0,
    stdout: '',
    stderr: '',
  })
})
