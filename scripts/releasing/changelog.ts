/**
 * The changelog: sections `## Unreleased` and `## 1.2.3 – 2026-01-31`, the newest on top. What is written under
 * Unreleased goes out with the next release, which gives it its version and day.
 */

interface Section {
  title: string
  /** Without blank lines around it. */
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

export interface Noted {
  /** What people are told about the version. */
  notes: string
  /** The changelog with the version and its day over them. */
  changelog: string
}

/**
 * What the changelog says about `version`, which goes out on `day` (2026-01-31).
 *
 * @throws when it says nothing, or in two places, with what to do
 */
export function noted(changelog: string, version: string, day: string): Noted {
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
      `CHANGELOG.md says nothing about ${version}; write under "## ${where?.title ?? 'Unreleased'}" what you can do now, what breaks, what to run`,
    )
  }
  if (section !== first) {
    throw new Error(`"## ${section.title}" is not the first section of CHANGELOG.md; move it to the top`)
  }
  const at = new RegExp(`^## +${RegExp.escape(section.title)} *$`, 'm')
  return { notes: section.body, changelog: changelog.replace(at, () => `## ${version} – ${day}`) }
}
