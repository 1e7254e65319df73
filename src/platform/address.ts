/** Which IP addresses belong to the public internet: the only ones a URL from a caller may lead to. */
import ipaddr from 'ipaddr.js'

/** Global unicast (RFC 4291 2.4, IANA): everything else in IPv6 is local, reserved, or a way to smuggle in IPv4. */
const globalUnicast: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/**
 * Whether the address is public unicast. IPv4 inside IPv6 (mapped, or NAT64's 64:ff9b::/96, by which networks without
 * IPv4 reach it) is judged by the IPv4 address; other forms of it (6to4, Teredo, compatible) are refused.
 *
 * @param text an address as `lookup` gives it; anything else is not public
 */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) return false
  const address = ipaddr.parse(text)
  if (address instanceof ipaddr.IPv4) return address.range() === 'unicast'
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().range() === 'unicast'
  if (address.range() === 'rfc6052' && address.parts[2] === 0) {
    return new ipaddr.IPv4(address.toByteArray().slice(12)).range() === 'unicast'
  }
  return address.range() === 'unicast' && address.match(globalUnicast)
}
