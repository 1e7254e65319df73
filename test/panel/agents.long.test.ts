/** The page of agents: questions, conversations, turns. Their store is filled by the library. */
import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { Svc } from '../../src/index.ts'
import type { AgentWork } from '../../src/operations/agents.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'
import { keyboard, wordsOf } from '../support/panel-hand.ts'

const token = 'correct-horse-battery-staple'
const phone = { width: 360, height: 740 }
const agent = 'agent'
const options = [
  { id: 'once', name: 'Allow once', kind: 'allow_once' },
  { id: 'no', name: 'Reject', kind: 'reject_once' },
] as const

/** Opens the store as the process of an agent does. */
async function workOf(panel: TestPanel): Promise<AgentWork & AsyncDisposable> {
  const svc = await Svc.open({ basePath: panel.dir, store: true, upstreamUrl: panel.sandbox.url })
  const work = await svc.workAsAgent()
  await work.claimAgent(agent)
  return Object.assign(work, { [Symbol.asyncDispose]: () => svc.close() })
}

/** Adds a turn of a user, and begins it. */
async function begin(work: AgentWork, user: string, messages: number[] = []) {
  const key = { agent, session: 'default', user }
  const source = messages.length > 0 ? 'message' : 'inject'
  const { id } = await work.addTurn({
    ...key,
    source,
    messages,
    ...(source === 'inject' && { prompt: 'go' }),
  })
  await work.claim(key)
  await work.changeTurn(id, { status: 'running', started_at: Date.now() })
  return id
}
const ask = (work: AgentWork, turn: number, text: string, code: string) =>
  work.ask({ turn, text, options: [...options], code, expires_at: Date.now() + 290_000 })

const rowOf = (page: Page, text: string) => page.locator('.row:not(.ask)').filter({ hasText: text })

async function expectAccessible(page: Page, what: string): Promise<void> {
  const wide = await page.evaluate(() =>
    [...document.querySelectorAll('#main, .rows, .rail, [role=dialog]')]
      .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
      .map(({ className }) => className),
  )
  expect([what, wide, await violationsInBothThemes(page)]).toEqual([what, [], []])
}

describe.skipIf(!hasBrowser)('the page of agents', () => {
  test.each(['en', 'zh'] as const)('questions are answered and a turn is stopped: %s', async language => {
    const t = wordsOf(language)
    await using panel = await withPanel()
    const { user_id: user } = panel.bots.get('default')!
    const name = `\u2068${user}\u2069`
    await write(panel, 'Tidy up my folder')
    const [message] = (await panel.gateway.history.page({ limit: 1, offset: 0 })).messages
    const page = await panel.open({
      path: '/agents',
      viewport: phone,
      locale: language === 'zh' ? 'zh-CN' : 'en',
    })
    const hand = keyboard(page)
    await page.getByText(t('agents.none'), { exact: true }).waitFor()
    await page.getByText(/^svc agent -d \S+ --sandbox -- claude -p$/).waitFor()
    await expectAccessible(page, 'no agent')

    await using work = await workOf(panel)
    const first = await begin(work, user, [message!.id])
    await work.changeTurn(first, {
      status: 'answered',
      answer: { parts: [{ text: 'It is tidy.' }] },
      parts_sent: 1,
    })
    const broken = await begin(work, 'stranger@im.wechat')
    await work.changeTurn(broken, {
      status: 'failed',
      error: `no such file: ${'x'.repeat(400)}`,
      ended_at: 1,
    })
    const turn = await begin(work, user)
    const key = { agent, session: 'default', user }
    const folder = '/home/anna/.svc/.agents/agent/0f3a9c1e77d24b50'
    await work.saveState(key, { agent_session: '5f1c9c1e-0b7e-4c44-9a53-b7c8d4a1e6f0', folder })
    const hostile = `rm -rf build\u202E\n${'very-long-name/'.repeat(40)}\n${'line\n'.repeat(30)}<b>end</b>`
    const asked = await ask(work, turn, hostile, 'A1')
    const second = await ask(work, turn, 'execute: git push; in ~/work', 'B2')
    const list = page.locator('.agent-questions')
    const button = (name: string, text: string) =>
      list.locator('li').filter({ hasText: text }).getByRole('button', { name })
    await button('Allow once', 'rm -rf build').waitFor()
    await list.getByText(t('agents.questions_open_other', { count: 2 }), { exact: true }).waitFor()
    const inMenu = page
      .getByRole('navigation')
      .getByRole('button', { name: t('nav.more') })
      .getByText(t('nav.questions'))
    await inMenu.waitFor({ state: 'attached' })
    await rowOf(page, t('agents.asking')).waitFor()
    await expectAccessible(page, 'questions')
    // No answer is the obvious one, and none that allows is under the finger first.
    const answers = list.locator('li').filter({ hasText: 'git push' }).locator('.answers .button')
    expect(await answers.locator('.foreign').allInnerTexts()).toEqual(['Reject', 'Allow once'])
    const [one, other] = await answers.evaluateAll(all => all.map(one => getComputedStyle(one).background))
    expect(one).toBe(other!)
    await list.getByText(t('agents.asks_execute', { agent: '\u2068agent\u2069', name })).waitFor()
    await list.getByText(t('agents.in_folder', { folder: '\u2068~/work\u2069' })).waitFor()
    // A long text is cut in the middle, and whole on demand.
    const long = list.locator('li').filter({ hasText: 'rm -rf build' })
    expect((await long.locator('blockquote').innerText()).length).toBeLessThan(140)
    await long.getByText('<b>end</b>').waitFor()
    await hand.press(long.getByRole('button', { name: t('agents.whole') }))
    expect((await long.locator('blockquote').innerText()).length).toBeGreaterThan(600)
    await expectAccessible(page, 'a long question')

    await hand.press(button('Reject', 'git push'))
    await panel.until(
      'the agent gets the answer',
      async () => (await work.getQuestion(second))?.answer === 'no',
    )
    await button('Reject', 'git push').waitFor({ state: 'detached' })
    await hand.press(button('Allow once', 'rm -rf build'))
    await list.getByText(t('agents.questions_none'), { exact: true }).waitFor()
    expect(await work.getQuestion(asked)).toMatchObject({ answer: 'once', answered_by: 'panel' })
    await inMenu.waitFor({ state: 'detached' })

    // The row opens a sheet beside the list, which has an address.
    await hand.press(rowOf(page, t('agents.running')).getByRole('link'))
    const sheet = page.getByRole('dialog')
    await sheet.getByText(t('agents.turn_answered'), { exact: true }).waitFor()
    await sheet.getByText('Tidy up my folder', { exact: true }).waitFor()
    await sheet.getByText('It is tidy.', { exact: true }).waitFor()
    await hand.press(sheet.getByText(t('agents.details'), { exact: true }))
    await sheet.getByText(folder, { exact: true }).waitFor()
    await expectAccessible(page, 'turns')
    await page.reload()
    await hand.press(sheet.getByRole('button', { name: t('agents.stop') }))
    await sheet.getByText(t('agents.stopping'), { exact: true }).waitFor()
    expect((await work.getTurn(turn))?.stopping).toBe(true)
    await work.changeTurn(turn, { status: 'stopped', error: 'a person stopped it', ended_at: Date.now() })
    await sheet.getByText(t('agents.turn_stopped'), { exact: true }).waitFor()
    await hand.escape()
    await sheet.waitFor({ state: 'detached' })
    await hand.press(rowOf(page, 'a person stopped it').getByRole('link'))
    await hand.press(sheet.getByRole('link', { name: t('search.messages_one', { count: 1 }), exact: true }))
    await page.getByRole('article').getByText('Tidy up my folder').waitFor()
    expect(panel.complaints).toEqual([])
  })

  test.each(['en', 'zh'] as const)('times are added, seen and removed: %s', async language => {
    const t = wordsOf(language)
    await using panel = await withPanel()
    const { user_id: user } = panel.bots.get('default')!
    await write(panel, 'Which of you is there?')
    const [message] = (await panel.gateway.history.page({ limit: 1, offset: 0 })).messages
    await using work = await workOf(panel)
    await begin(work, user, [message!.id])
    const key = { agent: 'home', session: 'default', user }
    await work.addTurn({ ...key, source: 'inject', messages: [], prompt: 'go' })
    await work.claim(key)
    await work.saveState(key, {
      title: 'Holiday',
      model: 'a-model',
      mode: 'plan',
      place: 'blog',
      folder: '/b',
    })
    await work.chooseAgent({ session: 'default', user }, { message: message!.id, agent: 'home' })
    const page = await panel.open({
      path: '/agents',
      viewport: phone,
      locale: language === 'zh' ? 'zh-CN' : 'en',
    })
    const hand = keyboard(page)
    const mark = page.locator('.badge').getByText(t('agents.chosen'), { exact: true })
    await mark.waitFor()
    expect(
      await page.locator('section:has(> h2)').filter({ has: mark }).locator('h2 bdi').allInnerTexts(),
    ).toEqual(['home'])

    // What is not certain is asked back, below the field.
    const add = page.getByRole('button', { name: t('agents.time_add'), exact: true })
    await hand.press(add)
    const form = page.getByRole('dialog')
    const when = form.getByLabel(t('agents.when'), { exact: true })
    await hand.write(when, 'next friday 8:00')
    await hand.enter()
    await form.getByText(t('agents.what_none'), { exact: true }).waitFor()
    await hand.write(form.getByLabel(t('agents.what'), { exact: true }), 'Weather')
    await hand.press(form.locator('footer .primary'))
    await form
      .locator('.field:has([name=when]) .problem')
      .getByText(/\d{4}-\d\d-\d\d 08:00/)
      .waitFor()
    await expectAccessible(page, 'a time that is not certain')
    await hand.write(when, '每天8点')
    await form.getByLabel(t('invite.agent'), { exact: true }).selectOption('home')
    await hand.press(form.locator('footer .primary'))
    await form.waitFor({ state: 'detached' })
    const [time] = await work.listTimes({})
    expect(time).toMatchObject({ agent: 'home', prompt: 'Weather', rule: { hour: 8, minute: 0 } })
    const row = page.locator('.agent-times .row')
    await row.locator('.row-facts > span').getByText(/8:00/).waitFor()
    await row.getByText(time!.zone, { exact: true }).waitFor()
    await expectAccessible(page, 'times')

    // Its time has passed, its answer waits, and it stands still.
    await work.passTime(time!, { due_at: Date.now() - 600_000 })
    await row.locator('.state.bad').getByText(t('agents.overdue'), { exact: true }).waitFor()
    const [late] = await work.listTimes({})
    await work.passTime(late!, { due_at: Date.now() + 600_000, turn: { agent: 'home', prompt: 'Weather' } })
    await row.locator('.state.warn').getByText(t('agents.paused_answer'), { exact: true }).waitFor()
    await hand.press(rowOf(page, 'default').locator('a[href*="home"]'))
    const sheet = page.getByRole('dialog')
    await sheet.locator('.speaker').getByText(t('agents.at_time'), { exact: true }).waitFor()
    await sheet.getByText('Holiday · home · default', { exact: true }).waitFor()
    await hand.press(sheet.getByText(t('agents.details'), { exact: true }))
    for (const text of ['a-model', 'plan', 'blog']) await sheet.getByText(text, { exact: true }).waitFor()
    const [turn] = await work.listWork('home')
    expect(turn).toBeDefined()
    const [waiting] = await work.listTimes({})
    await work.passTime(waiting!, {})
    await sheet.locator('.agent-times .state.warn').waitFor()
    await expectAccessible(page, 'times in the sheet')
    await hand.choose(sheet.locator('.agent-times').getByRole('button'), t('webhooks.remove'))
    await hand.press(page.getByRole('alertdialog').locator('footer .danger'))
    await panel.until('it is removed', async () => (await work.listTimes({})).length === 0)
    await page.locator('.agent-times').first().waitFor({ state: 'detached' })
    expect(panel.complaints.filter(one => !one.includes('422'))).toEqual([])
  })

  test('a key without the right to approve sees questions without buttons, others do not see the page', async () => {
    const t = wordsOf('en')
    await using panel = await withPanel({ token })
    await using work = await workOf(panel)
    const turn = await begin(work, panel.bots.get('default')!.user_id)
    await ask(work, turn, 'git push', 'A1')
    const by = { kind: 'owner' } as const
    const watcher = await panel.gateway.keys.add({ name: 'Wanda', can: ['agents'] }, by)
    const reader = await panel.gateway.keys.add({ name: 'Rita', can: ['read'] }, by)
    const signedIn = async (key: string) => {
      const page = await panel.open({ path: '/agents' })
      await page.getByLabel(t('signin.token'), { exact: true }).fill(key)
      await page.keyboard.press('Enter')
      return page
    }
    const watches = await signedIn(watcher.key)
    const list = watches.locator('.agent-questions')
    await list.getByText('git push', { exact: true }).waitFor()
    await list.getByText(t('agents.no_right'), { exact: true }).waitFor()
    expect(await list.getByRole('button').count()).toBe(0)
    expect(await watches.locator('main a[href*="/conversations"]').count()).toBe(0)
    await expectAccessible(watches, 'without the right')
    // Nor does it see what was asked: that is in the history.
    await rowOf(watches, t('agents.asking')).getByRole('link').click()
    const sheet = watches.getByRole('dialog')
    await sheet.locator('.agent-turn').getByText(t('agents.running'), { exact: true }).waitFor()
    await sheet.getByText('git push', { exact: true }).waitFor()
    expect(await sheet.locator('.agent-turns blockquote, a').count()).toBe(0)
    const reads = await signedIn(reader.key)
    await reads.getByText(t('denied.title'), { exact: true }).waitFor()
    const menu = reads.getByRole('navigation')
    expect(await menu.getByRole('link', { name: t('nav.agents') }).count()).toBe(0)
  })
})
