/**
 * Sets the information that Windows displays about a program: in its properties, in the task manager, and
 * when the firewall asks whether it may listen. Bun sets it only when it runs on Windows; otherwise Bun's own
 * name stays.
 */
import { NtExecutable, NtExecutableResource } from 'pe-library'
import { Resource } from 'resedit'

export interface Label {
  name: string
  version: string
  description: string
}

/**
 * @returns the program with this label instead of its own, and without its signature, which would no longer
 *   match
 */
export function withLabel(program: Uint8Array, { name, version, description }: Label): Uint8Array {
  const executable = NtExecutable.from(program, { ignoreCert: true })
  const resources = NtExecutableResource.from(executable)
  const [info] = Resource.VersionInfo.fromEntries(resources.entries)
  const language = info?.getAllLanguagesForStringValues()[0]
  if (!info || !language) throw new Error('The program for Windows has no version information to replace.')
  const [major = 0, minor = 0, patch = 0] = version.split(/[.-]/).map(Number)
  info.setFileVersion(major, minor, patch, 0)
  info.setProductVersion(major, minor, patch, 0)
  info.removeAllStringValues(language)
  info.setStringValues(language, {
    ProductName: name,
    ProductVersion: version,
    FileDescription: description,
    FileVersion: version,
    InternalName: name,
    OriginalFilename: `${name}.exe`,
  })
  info.outputToResourceEntries(resources.entries)
  resources.outputResource(executable)
  return new Uint8Array(executable.generate())
}
