import { expect, test } from 'bun:test'
import { startAdmin } from '../support/admin.ts'
import { checkedClient, spectral, toolsDir } from '../support/openapi-judges.ts'
import { startRest } from '../support/rest.ts'

const documentAt = async (url: string) => (await fetch(`${url}/openapi.json`)).text()

test('Spectral (spectral:oas) finds no errors, and of warnings only the contact we have not', async () => {
  await using rest = await startRest()
  await using admin = await startAdmin({ sessions: [], start: false })
  for (const url of [rest.url, admin.url]) {
    const found = await spectral(await documentAt(url))
    expect(found.filter(one => one.code !== 'info-contact' || one.severity === 0)).toEqual([])
  }
})

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
