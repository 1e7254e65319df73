/**
 * Short forms of TypeBox for the schemas of svc: the usual field types, with a description for the reader.
 */
import {
  type IntegerOptions,
  OptionalKind,
  type StringOptions,
  type TOptional,
  type TProperties,
  type TSchema,
  Type,
} from '@sinclair/typebox'

/**
 * Like Type.Optional, but without its checks of the kind of schema: with hundreds of calls at each start, the
 * runtime would begin to compile them.
 */
const toOptional = <S extends TSchema>(schema: S): TOptional<S> => ({
  ...schema,
  [OptionalKind]: 'Optional',
})
export const text = (description: string) => Type.String({ description })
export const integer = (description: string) => Type.Integer({ description })
export const flag = (description: string) => Type.Boolean({ description })

/** A string of 1 to `maxLength` characters. */
export const bounded = (maxLength: number, description?: string, more: StringOptions = {}) =>
  Type.String({ minLength: 1, maxLength, ...(description && { description }), ...more })

/** An integer within a range. */
export const between = (minimum: number, maximum: number, description: string, more: IntegerOptions = {}) =>
  Type.Integer({ minimum, maximum, description, ...more })

/** The longest wait of a call, in seconds. */
export const seconds = (maximum: number, usual: number, description: string) =>
  Type.Number({ minimum: 0, maximum, default: usual, description })

/** One of several strings. */
export const oneOf = <const T extends string>(
  values: readonly T[],
  description?: string,
  more: object = {},
) => Type.Unsafe<T>({ type: 'string', enum: values, ...(description && { description }), ...more })

/** An object that allows no other keys. */
export const closed = <P extends TProperties>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })

/** Returns a copy of the schema with another description. */
export const withDescription = <S extends TSchema>(schema: S, description: string): S => ({
  ...schema,
  description,
})

/** Makes a field optional; `optional.text('…')` is short for `optional(text('…'))`. */
export const optional = Object.assign(toOptional, {
  text: (...given: Parameters<typeof text>) => toOptional(text(...given)),
  integer: (...given: Parameters<typeof integer>) => toOptional(integer(...given)),
  flag: (...given: Parameters<typeof flag>) => toOptional(flag(...given)),
  bounded: (...given: Parameters<typeof bounded>) => toOptional(bounded(...given)),
  between: (...given: Parameters<typeof between>) => toOptional(between(...given)),
  oneOf: <const T extends string>(values: readonly T[], description?: string, more: object = {}) =>
    toOptional(oneOf(values, description, more)),
})
