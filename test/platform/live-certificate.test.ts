import { describe, expect, test } from 'bun:test'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Certificate, followCertificate } from '../../src/platform/certificate.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { createLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { hasOpenssl, makePair, openssl, type Pair } from '../support/certificate.ts'
import { folderOfFile, folderOfTest } from '../support/folder.ts'
import { until } from '../support/until.ts'
import { certificate, expiredCertificate, privateKey } from './certificate.ts'

const folder = folderOfFile()
const everyMs = 10
const write = (name: string, text: string | Uint8Array): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

/** Opens a pair, and collects the log and what replaced it. */
async function follow(pair: Pair) {
  const logged: string[] = []
  const replaced: Certificate[] = []
  const live = await followCertificate(
    pair,
    createLog('DEBUG', line => logged.push(line), 'text'),
    new Tasks(systemClock),
    everyMs,
  )
  live.onReplace(async next => void replaced.push(next))
  return { live, logged, replaced, errors: () => logged.filter(line => line.includes('ERROR')) }
}

const good = { cert: write('good.crt', certificate), key: write('good.key', privateKey) }

describe('files that cannot be used', () => {
  const cases: [what: string, field: string, files: Partial<Pair>][] = [
    ['an absent certificate', '--tls-cert', { cert: join(folder, 'absent') }],
    ['an absent key', '--tls-key', { key: join(folder, 'absent') }],
    ['a folder', '--tls-cert', { cert: folder }],
    ['an empty file', '--tls-cert', { cert: write('empty', '') }],
    ['text', '--tls-key', { key: write('text', 'hello') }],
    ['a certificate as key', '--tls-key', { key: good.cert }],
    ['a key as certificate', '--tls-cert', { cert: good.key }],
    ['an expired certificate', '--tls-cert', { cert: write('old.crt', expiredCertificate) }],
    ['a damaged certificate', '--tls-cert', { cert: write('bad.crt', certificate.replace('MIIB', 'MIIC')) }],
    ['a damaged key', '--tls-key', { key: write('bad.key', privateKey.replace('MIGH', 'MIGG')) }],
    [
      'a damaged issuer',
      '--tls-cert',
      { cert: write('chain.crt', certificate + certificate.slice(0, 80) + certificate.slice(90)) },
    ],
  ]
  test.each(cases)('%s', async (what, field, files) => {
    const error = await follow({ ...good, ...files }).catch(e => e)
    expect(error).toMatchObject({
      code: /expired/.test(what) ? 'internal' : 'invalid_arguments',
      advice: { hint: expect.any(String) },
    })
    expect(error.field).toBe(field)
    expect(error.message).toContain(Object.values(files)[0]!)
  })

  test.skipIf(process.getuid?.() === 0)('an unreadable key', async () => {
    const key = write('closed.key', privateKey)
    chmodSync(key, 0)
    expect(await follow({ ...good, key }).catch(e => e)).toMatchObject({ field: '--tls-key' })
  })

  test.skipIf(!hasOpenssl)(
    'an encrypted key in both forms, DER, a key of another pair, a chain in the wrong order',
    async () => {
      const root = makePair(folder, 'root')
      const own = makePair(folder, 'own', { issuer: 'root' })
      const [pkcs8, ec, der, chain] = ['p8.key', 'ec.key', 'own.der', 'turned.crt'].map(name =>
        join(folder, name),
      ) as [string, string, string, string]
      openssl(folder, 'pkcs8', '-topk8', '-passout', 'pass:x', '-in', own.key, '-out', pkcs8)
      openssl(folder, 'ec', '-aes256', '-passout', 'pass:x', '-in', own.key, '-out', ec)
      openssl(folder, 'x509', '-in', own.cert, '-outform', 'der', '-out', der)
      writeFileSync(chain, readFileSync(root.cert, 'utf8') + readFileSync(own.cert, 'utf8'))
      for (const [field, pair] of [
        ['--tls-key', { ...own, key: pkcs8 }],
        ['--tls-key', { ...own, key: ec }],
        ['--tls-cert', { ...own, cert: der }],
        ['--tls-key', { ...own, key: root.key }],
        ['--tls-key', { ...own, cert: chain }],
      ] as const)
        expect(await follow(pair).catch(e => e)).toMatchObject({ code: 'invalid_arguments', field })
    },
  )
})

test.skipIf(!hasOpenssl)('the forms of keys that OpenSSL writes', async () => {
  const rsa = ['-newkey', 'rsa:2048', '-nodes', '-keyout', 'rsa.key', '-out', 'rsa.crt', '-subj', '/CN=rsa']
  openssl(folder, 'req', '-x509', ...rsa)
  openssl(folder, 'rsa', '-traditional', '-in', 'rsa.key', '-out', 'rsa1.key')
  openssl(folder, 'ecparam', '-name', 'prime256v1', '-genkey', '-out', 'sec1.key')
  openssl(folder, 'req', '-x509', '-key', 'sec1.key', '-subj', '/CN=ec', '-out', 'sec1.crt')
  for (const [cert, key] of [
    ['rsa.crt', 'rsa.key'],
    ['rsa.crt', 'rsa1.key'],
    ['sec1.crt', 'sec1.key'],
  ] as const) {
    const { live } = await follow({ cert: join(folder, cert), key: join(folder, key) })
    expect(live.current.key).toStartWith('-----BEGIN PRIVATE KEY-----')
    live.close()
  }
})

describe.skipIf(!hasOpenssl)('a replacement', () => {
  const [one, two] = hasOpenssl ? [makePair(folder, 'one'), makePair(folder, 'two')] : []
  const copy = (from: Pair, to: Pair) => {
    copyFileSync(from.cert, to.cert)
    copyFileSync(from.key, to.key)
  }

  test('written in place, renamed over the old files, and by a symbolic link on the way', async () => {
    const own = folderOfTest()
    // As Kubernetes mounts a secret: two links through the link `..data`, which is renamed.
    for (const [name, pair] of [
      ['v1', one!],
      ['v2', two!],
    ] as const) {
      mkdirSync(join(own, name))
      copy(pair, { cert: join(own, name, 'tls.crt'), key: join(own, name, 'tls.key') })
    }
    symlinkSync('v1', join(own, '..data'))
    symlinkSync('..data/tls.crt', join(own, 'tls.crt'))
    symlinkSync('..data/tls.key', join(own, 'tls.key'))
    const files = { cert: join(own, 'tls.crt'), key: join(own, 'tls.key') }
    const { live, logged, replaced, errors } = await follow(files)
    const first = live.current.fingerprint
    symlinkSync('v2', join(own, '..data_tmp'))
    renameSync(join(own, '..data_tmp'), join(own, '..data'))
    await until(
      'the link counts',
      10_000,
      () => replaced.length === 1,
      () => logged.join('\n'),
    )
    const second = live.current.fingerprint
    expect(second).not.toBe(first)

    copy(one!, { cert: join(own, 'new.crt'), key: join(own, 'new.key') })
    renameSync(join(own, 'new.crt'), join(own, 'v2', 'tls.crt'))
    renameSync(join(own, 'new.key'), join(own, 'v2', 'tls.key'))
    await until('renamed files count', 10_000, () => replaced.length === 2)
    expect(live.current.fingerprint).toBe(first)

    copy(two!, files)
    await until('written files count', 10_000, () => replaced.length === 3)
    expect([live.current.fingerprint, errors()]).toEqual([second, []])
    live.close()
  })

  test('that is wrong keeps the old one, and is logged once; the next good one counts', async () => {
    const own = folderOfTest()
    const files = { cert: join(own, 'a.crt'), key: join(own, 'a.key') }
    copy(one!, files)
    const { live, logged, replaced, errors } = await follow(files)
    const { fingerprint } = live.current
    copyFileSync(two!.cert, files.cert)
    await until('it is logged', 10_000, () => errors().length === 1)
    writeFileSync(files.cert, 'hello')
    await until('another fault is logged too', 10_000, () => errors().length === 2)
    renameSync(files.cert, join(own, 'elsewhere'))
    await until('so is a missing file', 10_000, () => errors().length === 3)
    expect([live.current.fingerprint, replaced]).toEqual([fingerprint, []])
    copy(two!, files)
    await until('a good one counts', 10_000, () => replaced.length === 1)
    expect([live.current.fingerprint === fingerprint, errors().length]).toEqual([false, 3])
    expect(logged.join('\n')).not.toContain('PRIVATE KEY')
    live.close()
  })

  test('that the server rejects keeps the old one', async () => {
    const own = folderOfTest()
    const files = { cert: join(own, 'a.crt'), key: join(own, 'a.key') }
    copy(one!, files)
    const { live, errors } = await follow(files)
    live.onReplace(async () => {
      throw new Error('no')
    })
    const { fingerprint } = live.current
    copy(two!, files)
    await until('it is logged', 10_000, () => errors().length === 1)
    expect(live.current.fingerprint).toBe(fingerprint)
    live.close()
  })
})
