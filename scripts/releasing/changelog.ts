/**
 * Reads the changelog: sections `## Unreleased` and `## 1.2.3 – 2026-01-31`, the newest on top. The next
 * release publishes what is under Unreleased, and puts its version and date there.
 */

interface Section {
  title: string
  /** Without blank lines at its ends. */
  body: string
}

const heading = /^## +(.+?) *$/gm

function sectionsOf(changelog: string): Section[] {
  const found = [...changelog.matchAll(heading)]
  return found.map((match, index) => ({
    title: match[1]!,
    body: changelog.slice(match.index + match[0].length, found[index + 1]?.index).trim(),
  }))
}

const isUnreleased = ({ title }: Section) => /^\[?unreleased\]?$/i.test(title)
const isOf = (version: string) => (section: Section) => section.title.split(/[\s–(]/)[0] === version

export interface ChangelogNotes {
  /** What the changelog says about the version. */
  notes: string
  /** The changelog with the version and its date in the heading. */
  changelog: string
}

/**
 * Returns what the changelog says about `version`, which is released on `day` (2026-01-31).
 *
 * @throws Error when it says nothing, or in two places; the message says what to do
 */
export function findNotes(changelog: string, version: string, day: string): ChangelogNotes {
  const sections = sectionsOf(changelog)
  const [first] = sections
  const unreleased = sections.find(isUnreleased)
  const own = sections.find(isOf(version))
  if (unreleased?.body && own) {
    throw new Error(
      `CHANGELOG.md has both "${unreleased.title}" and "${own.title}"; put all of it under one, on top of the others`,
    )
  }
  const section = unreleased?.body ? unreleased : own
  if (!section?.body) {
    const where = own ?? unreleased
    throw new Error(
      `CHANGELOG.md says nothing about ${version}; write under "## ${where?.title ?? 'Unreleased'}" what users can do now, what breaks, what to run`,
    )
  }
  if (section !== first) {
    throw new Error(`"## ${section.title}" is not the first section of CHANGELOG.md; move it to the top`)
  }
  const at = new RegExp(`^## +${RegExp.escape(section.title)} *$`, 'm')
  return { notes: section.body, changelog: changelog.replace(at, () => `## ${version} – ${day}`) }
}
