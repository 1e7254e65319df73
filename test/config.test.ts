import { expect, test } from 'bun:test'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { Command } from 'commander'
import { addConfigOptions, silenceOutput } from '../src/cli/command.ts'
import { listOpenFiles } from '../src/config/token-file.ts'
import {
  type Config,
  type Flags,
  flagKeyOf,
  optionTable,
  readConfig,
  rejectUnreadSecrets,
  writeOptions,
} from '../src/config.ts'
import { isSvcError, type SvcError } from '../src/model/error.ts'
import { folderOfTest } from './support/folder.ts'

const home = homedir()
/** The refusal's text, or the config when there is none. */
function refusal(flags: Flags, env: Record<string, string> = {}): string {
  try {
    return JSON.stringify(readConfig(flags, env))
  } catch (error) {
    if (!isSvcError(error, 'invalid_arguments')) throw error
    return error.message
  }
}

test('without flags and variables the defaults of the specification hold', () => {
  expect(readConfig({}, {})).toEqual({
    host: '127.0.0.1',
    port: 8000,
    transport: 'stdio',
    confirmSend: false,
    anyFile: false,
    structured: false,
    basePath: join(home, '.svc'),
    logLevel: 'INFO',
    logFormat: 'text',
    banner: true,
    upstreamUrl: 'https://ilinkai.weixin.qq.com',
    cdnUrl: 'https://novac2c.cdn.weixin.qq.com/c2c',
    allowHosts: [],
    trustedProxies: [],
    eventsCallback: [],
    mediaRoot: join(home, '.svc', 'media'),
    storeMaxAgeDays: 30,
    storeMaxCount: 100_000,
    auditDays: 90,
    backupEvery: 86_400_000,
    backupKeep: 7,
    pace: { perSecond: 1, perWindow: 10, windowMs: 300_000 },
    maxUploadBytes: 2 * 1024 ** 3,
    keepFreeBytes: 256 * 1024 ** 2,
    sandbox: false,
    sandboxPort: 8001,
    sandboxHost: '127.0.0.1',
    channelVersion: '2.4.9',
    drain: 0,
  })
})

test('a flag wins over a variable, a variable over the default, and an empty variable is none', () => {
  const env = { SVC_PORT: '9000', SVC_HOST: '', SVC_NO_BANNER: '1', SVC_ALLOW_HOST: 'a.test, b.test:8443' }
  const config = readConfig({ port: '9100' }, env)
  expect(config.port).toBe(9100)
  expect(readConfig({}, env).port).toBe(9000)
  expect(config.host).toBe('127.0.0.1')
  expect(config.banner).toBe(false)
  expect(config.allowHosts).toEqual(['a.test', 'b.test:8443'])
  expect(readConfig({ allowHost: ['C.test'] }, env).allowHosts).toEqual(['c.test'])
})

test('every option can be given by its flag and by its variable alike', () => {
  const samples: { [Name in keyof Config]-?: [text: string, value: Config[Name]] } = {
    host: ['0.0.0.0', '0.0.0.0'],
    port: ['0', 0],
    socket: ['/run/svc.sock', '/run/svc.sock'],
    transport: ['HTTP', 'http'],
    publicUrl: ['https://svc.example.org/', 'https://svc.example.org'],
    consumer: ['codex', 'codex'],
    confirmSend: ['1', true],
    anyFile: ['1', true],
    structured: ['1', true],
    tools: ['recv, send', ['recv', 'send']],
    basePath: ['/srv/svc', resolve('/srv/svc')],
    adminPort: ['8080', 8080],
    metricsPort: ['9100', 9100],
    relayPort: ['9200', 9200],
    logLevel: ['debug', 'DEBUG'],
    logFormat: ['JSON', 'json'],
    banner: ['1', false],
    token: ['s3cret', 's3cret'],
    tokenFile: ['/run/secrets/svc_token', resolve('/run/secrets/svc_token')],
    keyFile: ['/run/secrets/svc_key', resolve('/run/secrets/svc_key')],
    allowHosts: ['[::1]:80,x.test', ['[::1]:80', 'x.test']],
    trustedProxies: ['10.0.0.0/8, FD00::1', ['10.0.0.0/8', 'fd00::1']],
    eventsCallback: [
      'https://127.0.0.1:8443/, https://home.test/hooks',
      ['https://127.0.0.1:8443', 'https://home.test/hooks'],
    ],
    eventsCallbackCa: ['/etc/svc/ca.pem', resolve('/etc/svc/ca.pem')],
    upstreamUrl: ['http://127.0.0.1:8001/', 'http://127.0.0.1:8001'],
    cdnUrl: ['https://cdn.test/c2c/', 'https://cdn.test/c2c'],
    mediaRoot: ['~/media', join(home, 'media')],
    storeMaxAgeDays: ['0.5', 0.5],
    storeMaxCount: ['0', 0],
    auditDays: ['0.5', 0.5],
    backupTo: ['/srv/backups', resolve('/srv/backups')],
    backupEvery: ['12h', 43_200_000],
    backupKeep: ['3', 3],
    passphraseFile: ['/run/secrets/passphrase', resolve('/run/secrets/passphrase')],
    secretKeyFile: ['/run/secrets/svc_secret_key', resolve('/run/secrets/svc_secret_key')],
    secretKey: ['k'.repeat(43), 'k'.repeat(43)],
    newSecretKeyFile: ['/run/secrets/svc_new_secret_key', resolve('/run/secrets/svc_new_secret_key')],
    newSecretKey: ['n'.repeat(43), 'n'.repeat(43)],
    storeUrlFile: ['/run/secrets/svc_store_url', resolve('/run/secrets/svc_store_url')],
    storeUrl: ['postgres://svc:pw@db/svc', 'postgres://svc:pw@db/svc'],
    drain: ['5', 5],
    tlsCert: ['/etc/svc/cert.pem', resolve('/etc/svc/cert.pem')],
    tlsKey: ['/etc/svc/key.pem', resolve('/etc/svc/key.pem')],
    pace: ['OFF', 'off'],
    maxUploadBytes: ['500MB', 500_000_000],
    keepFreeBytes: ['0', 0],
    sandbox: ['yes', true],
    sandboxPort: ['0', 0],
    sandboxHost: ['0.0.0.0', '0.0.0.0'],
    channelVersion: ['2.5.0', '2.5.0'],
  }
  expect(optionTable.map(({ name }) => name).sort()).toEqual(Object.keys(samples).sort() as (keyof Config)[])
  for (const option of optionTable) {
    const [text, value] = samples[option.name]
    expect([option.name, readConfig({}, { [option.env]: text })[option.name]]).toEqual([option.name, value])
    const key = flagKeyOf(option)
    if (key === undefined) continue
    const flag = option.flag?.startsWith('--no-') ? false : option.placeholder === undefined ? true : text
    expect([option.name, readConfig({ [key]: flag }, {})[option.name]]).toEqual([option.name, value])
  }
})

test('the table has one flag, short form and variable per option, and says what each is for', () => {
  for (const field of ['name', 'flag', 'short', 'env'] as const) {
    const given = optionTable.map(option => option[field]).filter(value => value !== undefined)
    expect(new Set(given).size).toBe(given.length)
  }
  for (const { flag, env, help, commands } of optionTable) {
    expect(help).not.toBe('')
    expect(commands.length).toBeGreaterThan(0)
    if (flag) expect(env).toBe(`SVC_${flag.slice(2).toUpperCase().replaceAll('-', '_')}`)
  }
})

test('with the sandbox everything lies in its own folder', () => {
  const config = readConfig({ sandbox: true }, {})
  expect(config.basePath).toBe(join(home, '.svc-sandbox'))
  expect(config.mediaRoot).toBe(join(home, '.svc-sandbox', 'media'))
  expect(readConfig({ sandbox: true, basePath: 'here' }, {}).mediaRoot).toBe(resolve('here', 'media'))
})

test('a path is taken as the disk writes it, where that differs in Unicode form alone', () => {
  const top = folderOfTest()
  const [apart, composed] = ['Cafe\u0301', 'Caf\u00e9']
  mkdirSync(join(top, apart))
  writeFileSync(join(top, apart, apart), 'token')
  const flags = { basePath: join(top, composed), tokenFile: join(top, composed, composed) }
  const found = { basePath: join(top, apart), tokenFile: join(top, apart, apart) }
  expect(readConfig(flags, {})).toMatchObject({ ...found, mediaRoot: join(top, apart, 'media') })
  mkdirSync(join(top, composed))
  expect(readConfig(flags, {})).toMatchObject(flags)
  for (const name of ['a\u0323\u0307', '\u1ea1\u0307']) mkdirSync(join(top, name))
  const either = join(top, '\u0227\u0323')
  expect(refusal({ basePath: either })).toStartWith('--base-path: ')
  expect(refusal({ mediaRoot: either })).toStartWith('--media-root: ')
  expect(refusal({}, { SVC_MEDIA_ROOT: either })).toStartWith('SVC_MEDIA_ROOT: ')
  expect(readConfig({ basePath: join(top, '新') }, {}).basePath).toBe(join(top, '新'))
})

test('a value that is not understood is refused by the name under which it was given', () => {
  const cases: [Flags, Record<string, string>, string][] = [
    [{ port: '65536' }, {}, '--port: expected a whole number from 0 to 65535, got "65536"'],
    [{ port: '80x' }, {}, '--port: expected a whole number'],
    [{ port: '' }, {}, '--port: expected a whole number'],
    [{ port: '-1' }, {}, '--port: expected a whole number'],
    [{}, { SVC_PORT: '1e3' }, 'SVC_PORT: expected a whole number'],
    [{ host: 'a b' }, {}, '--host: expected a host name or IP address, got "a b"'],
    [{ basePath: '' }, {}, '--base-path: expected a path'],
    [{ basePath: 'a\0b' }, {}, '--base-path: expected a path'],
    [{ logLevel: 'LOUD' }, {}, '--log-level: expected one of DEBUG, INFO, WARNING, ERROR, got "LOUD"'],
    [{ upstreamUrl: 'ilinkai.weixin.qq.com' }, {}, '--upstream-url: expected an http or https URL'],
    [{ upstreamUrl: 'ftp://x.test' }, {}, '--upstream-url: expected an http or https URL'],
    [{ cdnUrl: 'https://x.test/?a=1' }, {}, '--cdn-url: expected an http or https URL'],
    [{ allowHost: ['https://x.test'] }, {}, '--allow-host: expected a host name'],
    [{ trustProxy: ['proxy.lan'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['*'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['127.1'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['10.0.0.0/33'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['0.0.0.0/0'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['::/0'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['::1/129'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['[::1]'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['10.0.0.0/-1'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['1.2.3.4.5'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['fe80::1%eth0'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['10.0.0.1:80'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['010.0.0.1'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ trustProxy: ['loopback'] }, {}, '--trust-proxy: expected IP addresses'],
    [{ storeMaxAgeDays: '-1' }, {}, '--store-max-age-days: expected a number of days'],
    [{ auditDays: 'all' }, {}, '--audit-days: expected a number of days'],
    [{ storeMaxCount: '1.5' }, {}, '--store-max-count: expected a whole number'],
    [{ maxUpload: '0' }, {}, '--max-upload: expected a size'],
    [{ maxUpload: '2 gigs' }, {}, '--max-upload: expected a size'],
    [{ pace: 'fast' }, {}, '--pace: expected a rate as in 1/s,10/5m'],
    [{}, { SVC_SANDBOX: 'maybe' }, 'SVC_SANDBOX: expected 1 or 0, got "maybe"'],
    [{}, { SVC_CHANNEL_VERSION: 'latest' }, 'SVC_CHANNEL_VERSION: expected three numbers as in 2.4.9'],
    [{ adminPort: '8000' }, {}, '--admin-port: expected another port than --port'],
    [{ sandbox: true, port: '8001' }, {}, '--sandbox-port: expected another port'],
    [{ sandbox: true, upstreamUrl: 'http://x.test' }, {}, '--sandbox: expected without --upstream-url'],
  ]
  for (const [flags, env, text] of cases) expect(refusal(flags, env)).toStartWith(text)
})

test('no message repeats a token, or the password in a URL', () => {
  expect(refusal({ token: 'my secret' })).toBe('--token: expected printable ASCII characters without spaces')
  expect(refusal({}, { SVC_TOKEN: 'gehéim' })).not.toContain('geh')
  expect(refusal({ upstreamUrl: 'http://user:hunter2@x.test' })).not.toContain('hunter2')
})

test('sizes are read with decimal and binary units', () => {
  const sizes: [string, number][] = [
    ['1', 1],
    ['1k', 1000],
    ['1KiB', 1024],
    ['1.5 GB', 1_500_000_000],
    ['2GiB', 2_147_483_648],
    ['1T', 1e12],
  ]
  for (const [text, bytes] of sizes) expect(readConfig({ maxUpload: text }, {}).maxUploadBytes).toBe(bytes)
})

test('a pace may limit the session, the user, both or nothing', () => {
  const unlimited = Number.POSITIVE_INFINITY
  const paces: [string, Config['pace']][] = [
    ['2/s', { perSecond: 2, perWindow: unlimited, windowMs: 1000 }],
    ['0.5/s, 20/1h', { perSecond: 0.5, perWindow: 20, windowMs: 3_600_000 }],
    ['10/m', { perSecond: unlimited, perWindow: 10, windowMs: 60_000 }],
    ['5/30s,1/s', { perSecond: 1, perWindow: 5, windowMs: 30_000 }],
    ['off', 'off'],
  ]
  for (const [text, pace] of paces) expect(readConfig({ pace: text }, {}).pace).toEqual(pace)
  for (const text of ['', '0/s', '1/0s', '1/d', '1.5/5m', '1/s,2/s,3/m', '10/5m,10/5m'])
    expect(refusal({ pace: text })).toContain('--pace')
})

test('a config cannot be changed', () => {
  const config = readConfig({ allowHost: ['a.test'] }, {})
  expect(Object.isFrozen(config) && Object.isFrozen(config.allowHosts) && Object.isFrozen(config.pace)).toBe(
    true,
  )
})

test('options are spelled out again as they were given, by flags, and secrets are not', () => {
  const env = {
    ...{
      SVC_PORT: ' 9000 ',
      SVC_ALLOW_HOST: 'a.example, b.example',
      SVC_SANDBOX: '1',
      SVC_CONFIRM_SEND: '0',
    },
    ...{ SVC_TOKEN: 'hunter22', SVC_CHANNEL_VERSION: '2.4.8', SVC_TRANSPORT: 'http', SVC_LOG_LEVEL: '' },
  }
  const flags = { adminPort: '8080', mediaRoot: 'media', banner: false, pace: 'off' }
  const config = readConfig(flags, env)
  const spelled = writeOptions('openapi', flags, config, { env, without: ['pace'] })
  expect(spelled).toEqual({
    args: [
      ...['--port', '9000', '--admin-port', '8080', '--no-banner'],
      ...['--allow-host', 'a.example', '--allow-host', 'b.example'],
      ...['--media-root', resolve('media'), '--sandbox'],
    ],
    variables: { SVC_CHANNEL_VERSION: '2.4.8' },
  })
  // The same again comes of it.
  const command = addConfigOptions(silenceOutput(new Command()), 'openapi')
  command.parse(spelled.args, { from: 'user' })
  const again = readConfig(command.opts(), spelled.variables)
  const { token: _, transport: __, pace: ___, ...rest } = config
  expect(again).toMatchObject(rest)
})

test('a variable that seems to hold a secret which nothing reads is refused, with the right name', () => {
  const taking = (...envs: string[]) => optionTable.filter(({ env }) => envs.includes(env))
  const told = (name: string, ...envs: string[]) => {
    try {
      rejectUnreadSecrets({ [name]: 'x' }, taking(...envs))
      return 'accepted'
    } catch (error) {
      return [(error as SvcError).field, (error as SvcError).advice.hint]
    }
  }
  const backup = ['SVC_PASSPHRASE_FILE', 'SVC_SECRET_KEY_FILE', 'SVC_STORE_URL_FILE']
  const passphrase = expect.stringContaining('SVC_PASSPHRASE_FILE')
  for (const name of [
    'SVC_PASSPHRASE',
    'SVC_PASSWORD',
    'SVC_PASSPHRASE_FILES',
    'SVC_BACKUP_PASSPHRASE',
    'SVC_PASS',
  ])
    expect(told(name, ...backup)).toEqual([name, passphrase])
  const secret = expect.stringContaining('SVC_SECRET_KEY_FILE')
  for (const name of ['SVC_SECRET', 'SVC_SECRET_FILE', 'SVC_MY_SECRET_KEY'])
    expect(told(name, ...backup)).toEqual([name, secret])
  expect(told('SVC_STORE', ...backup)).toEqual(['SVC_STORE', expect.stringContaining('SVC_STORE_URL_FILE')])
  expect(told('SVC_KEY', 'SVC_KEY_FILE')).toEqual(['SVC_KEY', expect.stringContaining('SVC_KEY_FILE')])
  expect(told('SVC_API_TOKEN', 'SVC_TOKEN')).toEqual(['SVC_API_TOKEN', expect.stringContaining('SVC_TOKEN')])
  // What is no secret of the command, and what Kubernetes sets, is not refused.
  for (const name of ['SVC_KEY', 'SVC_PORTS', 'SVC_T', 'SVC_SECRET_KEY', 'SVC_PASSPHRASE_SERVICE_HOST'])
    expect(told(name, ...backup)).toBe('accepted')
  expect(told('SVC_PASSPHRASE', 'SVC_PORT')).toBe('accepted')
})

test('files with secrets that every user may read are named, of this user alone', () => {
  const top = folderOfTest()
  const made = [0o600, 0o640, 0o644, 0o604].map(mode => {
    const path = join(top, mode.toString(8))
    writeFileSync(path, 'secret')
    chmodSync(path, mode)
    return path
  })
  const [, , readable, odd] = made
  expect(listOpenFiles([...made, undefined, join(top, 'missing'), top, '/dev/null'])).toEqual([
    readable!,
    odd!,
  ])
  // The system's, which everybody may read.
  if (process.getuid?.() !== 0) expect(listOpenFiles(['/etc/hostname'])).toEqual([])
})
