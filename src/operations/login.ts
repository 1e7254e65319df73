import { Type } from '@sinclair/typebox'
import { waitOf } from '../model/call.ts'
import { LoginStatus } from '../model/login.ts'
import { closed, optional, seconds } from '../model/shapes.ts'
import { exampleBot } from './example-values.ts'
import { defineTool } from './operation.ts'
import { drawQrPng, drawQrSvg } from './qr.ts'
import { Id } from './schema.ts'

export const login = defineTool({
  name: 'login',
  title: 'Log a session in by QR code',
  effect: 'write',
  right: 'login',
  description: `Connects a WeChat (Weixin, 微信) account, as a session: a person scans a QR code to log in (sign in). The first call returns a QR code at once, as \`qr_url\` and as \`qr_text\`, which can be printed and scanned; show it to the owner of the account. Call again with the same session_name until the status is \`confirmed\`; \`message\` always says what to do next.

\`need_verifycode\`: ask the person for the digits on the phone and call with verify_code. \`expired\`: the code was renewed three times and not scanned; start again. \`already_bound\`: the account belongs to another bot program; WeChat allows one bot per account.`,
  input: closed({
    session_name: optional(
      Type.String({
        maxLength: 200,
        description:
          'Name of the session: letters of any script, digits, ".", "_", "-"; "" is "default". Absent: the only login in progress, else "default".',
      }),
    ),
    timeout: optional(seconds(300, 30, 'Longest wait for a change of status, in seconds.')),
    force: optional(
      Type.Boolean({ default: false, description: 'Log in again although the session is connected.' }),
    ),
    qr: optional.oneOf(
      ['text', 'svg', 'png'],
      'svg and png: also draw the QR code as an image, in qr_svg or qr_png.',
      {
        default: 'text',
      },
    ),
    verify_code: optional(
      Id('The digits that the phone shows, after need_verifycode.', { examples: ['0417'] }),
    ),
  }),
  output: LoginStatus,
  poll: {
    isOne: async ({ logins }, { session_name, verify_code }, { by }) =>
      verify_code === undefined && logins.isFollowed(by, session_name),
    isEnd: ({ qr_url, status }) => status === 'confirmed' || (status !== 'waiting' && qr_url === undefined),
  },
  errors: ['session_not_found', 'upstream_error', 'upstream_timeout', 'rate_limited', 'forbidden'],
  cli: {
    path: ['login'],
    positionals: ['session_name'],
    short: { timeout: 't', force: 'f', session_name: 's' },
    names: { session_name: 'session' },
    ownAbout: true,
    about: `Registers a WeChat account as a session: shows a QR code, follows the login, and ends when the account is connected or the last code has expired. Scan the code with WeChat on the phone of the account. An expired code is renewed up to three times. If the phone shows digits, the command asks for them.

WeChat allows one bot per account: logging in here ends the account's bot elsewhere. Without a name the session is named default. A connected session is logged in again only with --force.`,
    help: {
      timeout:
        'Give up after this many seconds without a change. Without it: when the last code has expired.',
      qr: 'With --json: adds the QR code as an image, in qr_svg or qr_png (base64).',
      verify_code: 'The digits that the phone shows, if the command cannot ask for them.',
    },
    examples: [
      ['svc login', 'The first account: shows the QR code and waits until it is connected'],
      ['svc login work', 'Another one, as the session "work"'],
      ['svc login work --force', 'Log the session "work" in again, although it is connected'],
    ],
  },
  examples: [
    {
      summary: 'Start',
      input: { session_name: '' },
      output: {
        status: 'waiting',
        session: 'default',
        qr_url: 'https://liteapp.weixin.qq.com/q/…',
        qr_text: '█▀▀▀▀▀█ …',
        message: 'Scan the QR code with WeChat, then call login again.',
      },
    },
    {
      summary: 'Start, and get the QR code as an image',
      input: { session_name: '', qr: 'svg' },
      output: {
        status: 'waiting',
        session: 'default',
        qr_url: 'https://liteapp.weixin.qq.com/q/…',
        qr_text: '█▀▀▀▀▀█ …',
        qr_svg: '<svg xmlns="http://www.w3.org/2000/svg" …',
        message: 'Scan the QR code with WeChat, then call login again.',
      },
    },
    {
      summary: 'Follow',
      input: { session_name: '', timeout: 60 },
      output: {
        status: 'confirmed',
        session: 'default',
        bot_id: exampleBot,
        message: 'Connected. Wait for a user to write, then answer.',
      },
    },
  ],
  async run(gateway, input, call) {
    const request = {
      session_name: input.session_name,
      timeout: waitOf(call, input.timeout ?? 30),
      force: input.force ?? false,
    }
    const { verify_code } = input
    const answered = verify_code === undefined ? call.findAnswer?.('verify_code')?.trim() : undefined
    const code = verify_code ?? answered
    let status = await gateway.logins.login(
      call.by,
      { ...request, ...(code && { verify_code: code }) },
      call.signal,
    )
    if (verify_code !== undefined) return withImage(status, input.qr)
    // If the door can ask the person, the digits are asked for here, and the caller need not call again.
    for (let asked = answered ? 1 : 0; status.status === 'need_verifycode' && !call.signal.aborted; asked++) {
      const typed = await call.ask?.({
        text: asked === 0 ? firstQuestion : nextQuestion,
        field: 'verify_code',
      })
      if (!typed) break
      status = await gateway.logins.login(
        call.by,
        { ...request, session_name: status.session, verify_code: typed.trim() },
        call.signal,
      )
    }
    return withImage(status, input.qr)
  },
})

/** Adds the QR code as the image that was asked for. */
async function withImage(status: LoginStatus, kind = 'text'): Promise<LoginStatus> {
  const { qr_url } = status
  if (qr_url === undefined || kind === 'text') return status
  return {
    ...status,
    ...(kind === 'svg' ? { qr_svg: await drawQrSvg(qr_url) } : { qr_png: await drawQrPng(qr_url) }),
  }
}

const firstQuestion = 'The phone shows a number. Type it here to go on.'
const nextQuestion = 'WeChat did not accept that number. Type the number that the phone shows now.'
