import { describe, expect, test } from 'bun:test'
import { createLogin, type LoginStep, maxRenewals, stepLogin } from '../../src/ilink/login.ts'
import type { QrcodeStatusReply } from '../../src/ilink/wire.ts'
import type { QrLogin } from '../../src/model/login.ts'

const qr = { qrcode: 'key-1', qrcode_img_content: 'https://liteapp.example/q/1' }
const fresh = createLogin(qr)
const https = { loginHost: 'https://ilinkai.weixin.qq.com' }
const plain = { loginHost: 'http://127.0.0.1:9000' }
const confirmed = {
  status: 'confirmed',
  bot_token: 'b@im.bot:s',
  ilink_bot_id: 'b@im.bot',
  ilink_user_id: 'u@im.wechat',
  baseurl: 'https://idc2.example.com/',
}

interface Case {
  name: string
  flow?: Partial<QrLogin>
  reply: QrcodeStatusReply & { error?: unknown }
  context?: { loginHost: string; codeSent?: string }
  expected: Partial<LoginStep> | { credentials: unknown }
  after?: Partial<QrLogin>
}

const scanned = { state: 'scaned' } as const
const asked = { state: 'need_verifycode', needsCode: true } as const

const cases: Case[] = [
  { name: 'wait keeps waiting', reply: { status: 'wait' }, expected: { state: 'waiting', next: 'poll' } },
  { name: 'scaned', reply: { status: 'scaned' }, expected: { state: 'scaned', next: 'poll' } },
  {
    name: 'wait after a scan: the phone went back',
    flow: scanned,
    reply: { status: 'wait' },
    expected: { state: 'waiting', next: 'poll' },
  },
  {
    name: 'a failed poll after a scan changes nothing',
    flow: scanned,
    reply: { status: 'wait', error: new Error('HTTP 524') },
    expected: { state: 'scaned', next: 'poll' },
    after: scanned,
  },
  {
    name: 'an unknown status changes nothing',
    flow: scanned,
    reply: { status: 'scanned_twice' },
    expected: { state: 'scaned', next: 'poll' },
  },
  { name: 'a missing status changes nothing', reply: {}, expected: { state: 'waiting', next: 'poll' } },
  {
    name: 'digits are asked for',
    flow: scanned,
    reply: { status: 'need_verifycode' },
    expected: { state: 'need_verifycode', next: 'poll', dropCode: false, wrongCode: false },
    after: { needsCode: true },
  },
  {
    name: 'digits asked for again after a code: it was wrong',
    flow: asked,
    reply: { status: 'need_verifycode' },
    context: { ...https, codeSent: '12' },
    expected: { state: 'need_verifycode', next: 'poll', dropCode: true, wrongCode: true },
    after: { needsCode: true },
  },
  {
    name: 'a poll without an answer keeps the code',
    flow: asked,
    reply: { status: 'wait', error: new Error('timeout') },
    context: { ...https, codeSent: '12' },
    expected: { state: 'need_verifycode', next: 'poll', dropCode: false, wrongCode: false },
    after: { needsCode: true },
  },
  {
    name: 'wait while a code is checked keeps the code',
    flow: asked,
    reply: { status: 'wait' },
    context: { ...https, codeSent: '12' },
    expected: { state: 'need_verifycode', next: 'poll', dropCode: false },
  },
  {
    name: 'scaned after a code: it was right',
    flow: asked,
    reply: { status: 'scaned' },
    context: { ...https, codeSent: '12' },
    expected: { state: 'scaned', next: 'poll', dropCode: true, wrongCode: false },
    after: { needsCode: false },
  },
  {
    name: 'too many wrong codes use up a QR code',
    flow: asked,
    reply: { status: 'verify_code_blocked' },
    expected: { state: 'verify_code_blocked', next: 'renew', dropCode: true },
    after: { renewals: 1, needsCode: false },
  },
  {
    name: 'an expired QR code is renewed',
    reply: { status: 'expired' },
    expected: { state: 'expired', next: 'renew' },
    after: { renewals: 1 },
  },
  {
    name: 'the last renewal',
    flow: { renewals: maxRenewals - 1 },
    reply: { status: 'expired' },
    expected: { state: 'expired', next: 'renew' },
    after: { renewals: maxRenewals },
  },
  {
    name: 'expired once too often',
    flow: { renewals: maxRenewals },
    reply: { status: 'expired' },
    expected: { state: 'expired', next: 'end' },
  },
  {
    name: 'blocked once too often',
    flow: { renewals: maxRenewals },
    reply: { status: 'verify_code_blocked' },
    expected: { state: 'verify_code_blocked', next: 'end' },
  },
  {
    name: 'a redirect is followed with the same QR code, over https',
    reply: { status: 'scaned_but_redirect', redirect_host: 'idc3.weixin.qq.com' },
    expected: { state: 'scaned', next: 'poll' },
    after: { host: 'https://idc3.weixin.qq.com', qrcode: 'key-1' },
  },
  {
    name: 'a redirect of a sandbox stays plain, port and all',
    reply: { status: 'scaned_but_redirect', redirect_host: '127.0.0.1:9001' },
    context: plain,
    expected: { state: 'scaned', next: 'poll' },
    after: { host: 'http://127.0.0.1:9001' },
  },
  {
    name: 'a redirect without a host keeps the current one',
    flow: { host: 'https://idc3.weixin.qq.com' },
    reply: { status: 'scaned_but_redirect' },
    expected: { state: 'scaned', next: 'poll' },
    after: { host: 'https://idc3.weixin.qq.com' },
  },
  ...['evil.example/path', 'user@evil.example', 'http://evil.example', 'a b', 'x:99999'].map(
    (redirect_host): Case => ({
      name: `a redirect to "${redirect_host}" is no host`,
      reply: { status: 'scaned_but_redirect', redirect_host },
      expected: { state: 'scaned', next: 'poll' },
      after: { host: undefined },
    }),
  ),
  {
    name: 'the scanned bot is one of ours',
    reply: { status: 'binded_redirect' },
    expected: { state: 'already_bound', next: 'end' },
  },
  {
    name: 'confirmed gives the credentials',
    reply: confirmed,
    expected: {
      state: 'confirmed',
      next: 'done',
      credentials: {
        bot_id: 'b@im.bot',
        token: 'b@im.bot:s',
        base_url: 'https://idc2.example.com',
        user_id: 'u@im.wechat',
      },
    },
  },
  {
    name: 'confirmed without baseurl and user: the login host',
    flow: { host: 'https://idc3.weixin.qq.com' },
    reply: { ...confirmed, baseurl: undefined, ilink_user_id: undefined },
    expected: {
      next: 'done',
      credentials: { bot_id: 'b@im.bot', token: 'b@im.bot:s', base_url: https.loginHost },
    },
  },
  {
    name: 'a baseurl that would send the token in clear is not believed',
    reply: { ...confirmed, baseurl: 'http://idc2.example.com' },
    expected: { credentials: expect.objectContaining({ base_url: https.loginHost }) },
  },
  {
    name: 'a plain baseurl of a plain login host is',
    reply: { ...confirmed, baseurl: 'http://127.0.0.1:9000/prefix' },
    context: plain,
    expected: { credentials: expect.objectContaining({ base_url: 'http://127.0.0.1:9000/prefix' }) },
  },
  {
    name: 'confirmed without a token is no login',
    reply: { ...confirmed, bot_token: undefined },
    expected: { next: 'end', state: 'expired', problem: expect.stringContaining('no credentials') },
  },
  {
    name: 'confirmed without a bot id is no login',
    reply: { ...confirmed, ilink_bot_id: undefined },
    expected: { next: 'end', state: 'expired' },
  },
]

describe('stepLogin', () => {
  for (const { name, flow, reply, context, expected, after } of cases) {
    test(name, () => {
      const before = { ...fresh, ...flow }
      const frozen = Object.freeze({ ...before })
      const step = stepLogin(frozen, reply, context ?? https)
      expect(step as unknown).toMatchObject(expected)
      expect(step.flow as unknown).toMatchObject({ qrcode: 'key-1', ...after })
      expect(step.flow.state).toBe(step.state)
    })
  }

  test('a renewed flow counts on from the old one', () => {
    const renewed = createLogin({ qrcode: 'key-2', qrcode_img_content: 'https://q/2' }, 2)
    expect(renewed).toEqual({
      qrcode: 'key-2',
      qrUrl: 'https://q/2',
      renewals: 2,
      state: 'waiting',
      needsCode: false,
    })
  })
})
