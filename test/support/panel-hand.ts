/**
 * A user of the panel, with a pointer or only by keyboard. Both have the same methods, so that one test
 * serves both.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FileChooser, Locator, Page } from 'playwright-core'
import type en from '../../locales/en.json'

/** Reaching a control must take fewer Tab steps than this. */
const tabsAtMost = 80

export interface Hand {
  /** Follows a link or presses a button. */
  press(target: Locator): Promise<void>
  /** Replaces the text of a field. */
  write(target: Locator, text: string): Promise<void>
  /** Submits the focused field. */
  enter(): Promise<void>
  /** Opens a menu and selects an entry. */
  choose(menu: Locator, entry: string): Promise<void>
  /** Presses the control that opens a file dialog, and chooses files. */
  pick(target: Locator, files: Parameters<FileChooser['setFiles']>[0]): Promise<void>
  /** Closes what is open above the page. */
  escape(): Promise<void>
}

export function pointer(page: Page): Hand {
  ownFileDialogs(page)
  return {
    press: target => target.click(),
    write: (target, text) => target.fill(text),
    enter: () => page.keyboard.press('Enter'),
    async choose(menu, entry) {
      await menu.click()
      await page.getByRole('menuitem', { name: entry, exact: true }).click()
    },
    async pick(target, files) {
      const chooser = page.waitForEvent('filechooser')
      await target.click()
      await (await chooser).setFiles(files)
    },
    escape: () => page.keyboard.press('Escape'),
  }
}

export function keyboard(page: Page): Hand {
  ownFileDialogs(page)
  const isThere = (target: Locator) => target.evaluate(element => element === document.activeElement)
  /** Tabs to the target, and checks that the focus is visible. */
  const reach = async (target: Locator) => {
    await target.waitFor()
    for (let tabs = 0; !(await isThere(target)); tabs++) {
      if (tabs > tabsAtMost) throw new Error(`Tab does not lead to ${target}`)
      await page.keyboard.press('Tab')
    }
    const seen = await target.evaluate(element => {
      const box = element.getBoundingClientRect()
      const inView = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth
      const around = element.closest(':has(> :focus-visible)')
      // The link of a row marks the whole row.
      const marks = ['', '::after'].map(part => getComputedStyle(element, part))
      const marked = marks.some(
        ({ outlineStyle, outlineWidth, boxShadow }) =>
          (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none',
      )
      return inView && (marked || (around !== null && getComputedStyle(around).outlineStyle !== 'none'))
    })
    if (!seen) throw new Error(`nothing shows that the focus is on ${target}`)
  }
  return {
    async press(target) {
      await reach(target)
      await page.keyboard.press('Enter')
    },
    async write(target, text) {
      await reach(target)
      await page.keyboard.press('Control+A')
      await page.keyboard.press('Delete')
      await page.keyboard.type(text)
    },
    enter: () => page.keyboard.press('Enter'),
    async choose(menu, entry) {
      await reach(menu)
      await page.keyboard.press('Enter')
      const item = page.getByRole('menuitem', { name: entry, exact: true })
      await item.waitFor()
      // The first entry gets selected one frame after the menu opens; earlier arrow keys would have no
      // effect.
      await page.locator('[role=menuitem][data-highlighted]').waitFor()
      for (let steps = 0; (await item.getAttribute('data-highlighted')) === null; steps++) {
        if (steps > 10) throw new Error(`the arrows do not lead to ${entry}`)
        await page.keyboard.press('ArrowDown')
      }
      await page.keyboard.press('Enter')
    },
    async pick(target, files) {
      await reach(target)
      const chooser = page.waitForEvent('filechooser')
      await page.keyboard.press('Enter')
      await (await chooser).setFiles(files)
    },
    escape: () => page.keyboard.press('Escape'),
  }
}

type Key = keyof typeof en

/** Returns a function that gives the panel's text of a key in a language. */
export function wordsOf(language: string): (key: Key, params?: Record<string, string | number>) => string {
  const path = join(import.meta.dirname, '../../locales', `${language}.json`)
  const texts = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>
  return (key, params = {}) => {
    const text = texts[key] ?? texts[key.replace(/_one$/, '_other')]
    if (text === undefined) throw new Error(`${language} has no ${key}`)
    return text.replace(/\{(\w+)\}/g, (all, name: string) => String(params[name] ?? all))
  }
}

/** Registers for file dialogs once, early: registering with the key press may be too late. */
const ownFileDialogs = (page: Page) => void page.on('filechooser', () => {})
