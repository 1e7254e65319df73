/** The page of topics, by keyboard on a phone. */

import { describe, expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { owner } from '../../src/model/principal.ts'
import { untilSaid } from '../../src/model/topic.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel, write } from '../support/panel.ts'
import { keyboard, wordsOf } from '../support/panel-hand.ts'

const languages = ['en', 'zh'] as const

describe.skipIf(!hasBrowser)('topics', () => {
  test.each(languages)('a topic is added, gets a key, is changed and removed: %s', async language => {
    const t = wordsOf(language)
    await using panel = await withPanel({ rest: 'http://127.0.0.1:8000' })
    const { topics, keys } = panel.gateway
    await write(panel, 'hello')
    const page = await panel.open({
      path: '/settings',
      locale: language === 'zh' ? 'zh-CN' : 'en',
      viewport: { width: 320, height: 640 },
    })
    const hand = keyboard(page)
    const dialog = page.getByRole('dialog').or(page.getByRole('alertdialog'))
    const button = (name: string) => dialog.getByRole('button', { name, exact: true }).last()
    const isForAll = async (what: string) => {
      const wide = await page.evaluate(() =>
        [...document.querySelectorAll('#main, [role$=dialog]')]
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
          .map(({ className }) => className),
      )
      expect([what, wide, await violationsInBothThemes(page)]).toEqual([what, [], []])
    }

    await hand.press(page.getByRole('button', { name: t('nav.more') }))
    await hand.press(page.getByRole('link', { name: t('topics.title') }))
    await page.getByText(t('topics.none'), { exact: true }).waitFor()
    await isForAll('no topic')

    await hand.press(page.getByRole('main').getByRole('button', { name: t('topics.add') }))
    const name = dialog.getByRole('textbox', { name: t('access.name'), exact: true })
    for (const [wrong, text] of [
      ['two words', 'topics.name_bad'],
      ['backups', 'topics.name_taken'],
    ] as const) {
      await hand.write(name, wrong)
      await hand.enter()
      await dialog
        .getByRole('alert')
        .filter({ hasText: t(text) })
        .waitFor()
    }
    await isForAll('a wrong name')
    await hand.write(name, 'home')
    await hand.enter()
    // Its detail opens, with the address to paste.
    await dialog.getByText('http://127.0.0.1:8000/notify/home', { exact: true }).waitFor()
    expect(await topics.list(owner)).toMatchObject([
      { name: 'home', people: [{ user_id: panel.bots.get('default')!.user_id }], answers: 5 },
    ])

    await hand.press(button(t('topics.change')))
    await dialog.last().getByLabel(t('topics.quiet_from'), { exact: true }).fill('23:00')
    await dialog.last().getByLabel(t('topics.quiet_until'), { exact: true }).fill('07:00')
    await dialog.last().getByLabel(t('topics.zone'), { exact: true }).fill('Asia/Shanghai')
    await dialog.last().getByLabel(t('topics.secret'), { exact: true }).fill('a secret of the sender')
    const template = dialog.last().getByLabel(t('topics.template'), { exact: true })
    await template.fill('{{ .title }}\n{{ .state }}')
    await isForAll('the settings')
    await hand.press(button(t('topics.change')))
    await dialog.getByText('23:00-07:00 Asia/Shanghai').waitFor()
    const changed = { quiet: '23:00-07:00', time_zone: 'Asia/Shanghai', signed: true }
    expect(await topics.list(owner)).toMatchObject([{ ...changed, template: '{{ .title }}\n{{ .state }}' }])
    // What is not shown, and lines, stay as they are.
    await hand.press(button(t('topics.change')))
    await dialog.last().getByText(t('topics.secret_kept')).waitFor()
    await hand.press(button(t('topics.change')))
    await dialog.last().getByText(t('topics.secret_kept')).waitFor({ state: 'detached' })
    expect(await topics.list(owner)).toMatchObject([{ ...changed, template: '{{ .title }}\n{{ .state }}' }])

    const unread = { template: true, severity: 'hgih' } as const
    await topics.accept(createDirectCall(), 'home', [{ text: 'the disk is full', priority: 'low', unread }])
    await dialog.getByText('the disk is full').waitFor()
    await dialog.getByText(t('topics.low'), { exact: true }).waitFor()
    await dialog.getByText(t('topics.unknown_words'), { exact: true }).waitFor()
    await dialog.getByText('hgih').waitFor()
    await isForAll('what waits')
    // It is paused and goes on.
    await hand.escape()
    const menu = page.getByRole('main').getByRole('row').nth(1).getByRole('button')
    const row = (text: string) => page.getByRole('row').filter({ hasText: text }).waitFor()
    await hand.choose(menu, t('topics.pause'))
    await row(t('topics.paused'))
    expect(await topics.list(owner)).toMatchObject([{ paused_until: untilSaid, people: [{ why: 'paused' }] }])
    await isForAll('a pause')
    await hand.choose(menu, t('topics.resume'))
    await page
      .getByRole('row')
      .filter({ hasText: t('topics.paused') })
      .waitFor({ state: 'detached' })
    await hand.choose(menu, t('topics.pause_hour'))
    await row(t('topics.paused_until').replace('{when}', ''))
    await hand.choose(menu, t('topics.resume'))
    // The state names what waits and why; it is never only ready.
    await row(t('topics.wait_other').split('{why}')[0]!.trim().replace('{count}', '').trim().split(' ')[0]!)
    expect(await page.getByText(t('topics.ready'), { exact: true }).count()).toBe(0)
    await page.goto(`${panel.url}/topics?topic=home`)
    await dialog.getByText('the disk is full').waitFor()
    // Another person, and out again.
    await topics.change(owner, { topic: 'home', add: ['dAd@im.wechat'] })
    await page.reload()
    await dialog.getByText('dAd').first().waitFor()
    await isForAll('two people')
    // Dad's hours are his own, and then those of the topic again.
    const hours = dialog.getByRole('button', { name: t('topics.quiet'), exact: true }).last()
    await hand.press(hours)
    await dialog.last().getByLabel(t('topics.quiet_from'), { exact: true }).fill('21:30')
    await dialog.last().getByText(t('topics.quiet_own_about')).waitFor()
    await isForAll('the hours of a person')
    await hand.press(button(t('topics.change')))
    await dialog.getByRole('alert').filter({ hasText: /\S/ }).waitFor()
    await dialog.last().getByLabel(t('topics.quiet_until'), { exact: true }).fill('06:00')
    await hand.press(button(t('topics.change')))
    await dialog.getByText(t('topics.quiet_own_about')).waitFor({ state: 'detached' })
    await dialog.getByText('21:30-06:00 Asia/Shanghai').waitFor()
    const peopleOf = async () => (await topics.list(owner))[0]!.people
    expect((await peopleOf())[1]).toMatchObject({ quiet: '21:30-06:00', time_zone: 'Asia/Shanghai' })
    expect((await peopleOf())[0]).not.toHaveProperty('quiet')
    await hand.press(hours)
    for (const time of ['topics.quiet_from', 'topics.quiet_until'] as const)
      await dialog.last().getByLabel(t(time), { exact: true }).fill('')
    await hand.press(button(t('topics.change')))
    await dialog.last().getByText(t('topics.quiet_own_about')).waitFor({ state: 'detached' })
    await dialog.getByText('21:30-06:00 Asia/Shanghai').waitFor({ state: 'detached' })
    expect((await peopleOf())[1]).not.toHaveProperty('time_zone')
    await hand.press(dialog.getByRole('button', { name: t('topics.leave'), exact: true }).last())
    await hand.press(page.getByRole('alertdialog').getByRole('button', { name: t('topics.leave') }))
    await dialog.getByText('dAd').first().waitFor({ state: 'detached' })
    expect((await topics.list(owner))[0]!.people).toHaveLength(1)

    await hand.press(button(t('topics.key')))
    await dialog.getByText(t('access.first_about')).waitFor()
    await hand.write(dialog.getByRole('textbox', { name: t('access.name'), exact: true }), 'nas')
    await hand.enter()
    await button(t('access.secret_kept')).waitFor()
    await isForAll('the key')
    expect(await keys.list(owner)).toMatchObject([{ name: 'nas', can: ['notify'], topics: ['home'] }])
    await hand.press(button(t('access.secret_kept')))

    await hand.press(button(t('webhooks.remove')))
    await page.getByRole('alertdialog').waitFor()
    await isForAll('the question')
    await hand.press(page.getByRole('alertdialog').getByRole('button', { name: t('webhooks.remove') }))
    await page.getByText(t('topics.none'), { exact: true }).waitFor()
    expect(await topics.list(owner)).toEqual([])
    // The browser logs the rejected calls, also those that were on their way when the first key was made.
    expect(panel.complaints.filter(line => !/\b(401|422)\b/.test(line))).toEqual([])
  })
})
