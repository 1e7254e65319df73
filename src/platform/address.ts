/** Which IP addresses belong to the public internet: the only ones a URL from a caller may lead to. */
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'

/** Global unicast (RFC 4291 2.4, IANA): everything else in IPv6 is local, reserved, or a way to smuggle in IPv4. */
const globalUnicast: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/**
 * Addresses of public ranges behind which a cloud answers its own machines with what is secret; all others that are
 * known are link-local, private or reserved.
 */
const ofClouds: readonly string[] = [
  // Azure's wire server: learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
  '168.63.129.16',
  // metadata.packet.net, later metadata.platformequinix.com: packet.com/developers/docs/servers/key-features/metadata
  '192.80.8.124',
  // In private ranges, where these are allowed. AWS (docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html),
  // Google (cloud.google.com/compute/docs/metadata/querying-metadata), Alibaba (alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata).
  'fd00:ec2::254',
  'fd20:ce::254',
  '100.100.100.200',
]

/** The addresses that this machine's interfaces have now. One that its network translates to them is not among them. */
export const ownAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap(all => all?.map(({ address }) => address) ?? [])

/**
 * Whether the address is public unicast of another machine. IPv4 inside IPv6 (mapped, or NAT64's 64:ff9b::/96, by which
 * networks without IPv4 reach it) is judged by the IPv4 address; other forms of it (6to4, Teredo, compatible) are refused.
 *
 * @param text an address as `lookup` gives it; anything else is not public
 * @param own those of this machine: what listens on a public one of them expects callers from outside
 */
export function isPublicAddress(text: string, own: readonly string[]): boolean {
  const address = meant(text)
  if (address?.range() !== 'unicast') return false
  if (address instanceof ipaddr.IPv6 && !address.match(globalUnicast)) return false
  return ![...ofClouds, ...own].some(other => meant(other)?.toString() === address.toString())
}

/** What a private network, and this machine, has. Link-local addresses are not among them: clouds answer there. */
const privateRanges: readonly string[] = ['private', 'loopback', 'uniqueLocal', 'carrierGradeNat']

/** Whether the address is public, or one of a private network or of this machine, where no cloud tells secrets. */
export function isReachableAddress(text: string): boolean {
  const address = meant(text)
  if (!address || ofClouds.some(other => meant(other)?.toString() === address.toString())) return false
  return isPublicAddress(text, []) || privateRanges.includes(address.range())
}

/** The address that is reached under this one. */
function meant(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (!ipaddr.isValid(text)) return undefined
  const address = ipaddr.parse(text)
  if (address instanceof ipaddr.IPv4) return address
  if (address.isIPv4MappedAddress()) return address.toIPv4Address()
  const isNat64 = address.range() === 'rfc6052' && address.parts[2] === 0
  return isNat64 ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address
}
