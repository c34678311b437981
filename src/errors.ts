/** What every error of this package has: a stable `code` to branch on. */
export interface OnceboxErrorInfo {
  readonly code: string;
}

// biome-ignore lint/complexity/noBannedTypes: any class
type ErrorClass = Function & { readonly code: string };

/**
 * Lets `instanceof` know errors of another copy of this package, for a class and for those that extend it. A process may
 * load the package by `import` and by `require`, and then has each class twice. They are known by their `code`.
 */
export function knownByCode(type: ErrorClass): void {
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: ErrorClass, value: unknown): boolean {
      return isInstance(this, value) || (Object.hasOwn(this, "code") && hasClass(value, this.code));
    },
  });
}

const isInstance = (type: ErrorClass, value: unknown): boolean =>
  Function.prototype[Symbol.hasInstance].call(type, value);

/** Whether the value's class, or one that it extends, has this code. */
function hasClass(value: unknown, code: string): boolean {
  if (typeof value !== "object" || value === null) return false;
  for (let one = Object.getPrototypeOf(value); one !== null; one = Object.getPrototypeOf(one)) {
    const type: unknown = one.constructor;
    if (typeof type === "function" && Object.hasOwn(type, "code") && (type as ErrorClass).code === code)
      return true;
  }
  return false;
}

/** A value that can never be right: empty, too long, of the wrong type. */
export class InvalidArgumentError extends TypeError implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_INVALID_ARGUMENT";
  static {
    knownByCode(InvalidArgumentError);
  }

  readonly code = InvalidArgumentError.code;
  override readonly name = "InvalidArgumentError";
}

/** A number or a duration outside the allowed range. */
export class ArgumentRangeError extends RangeError implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_ARGUMENT_RANGE";
  static {
    knownByCode(ArgumentRangeError);
  }

  readonly code = ArgumentRangeError.code;
  override readonly name = "ArgumentRangeError";
}

/** The call is well-formed but cannot succeed in the present state or configuration. */
export class InvalidOperationError extends Error implements OnceboxErrorInfo {
  static readonly code: string = "ONCEBOX_INVALID_OPERATION";
  static {
    knownByCode(InvalidOperationError);
  }

  readonly code: string = InvalidOperationError.code;
  override readonly name: string = "InvalidOperationError";
}

/** The driver of the chosen database is not installed. */
export class DriverMissingError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_DRIVER_MISSING";
  override readonly code = DriverMissingError.code;
  override readonly name = "DriverMissingError";

  constructor(driver: string, database: string, cause: unknown) {
    super(`${database} needs the package "${driver}". Run: npm install ${driver}`, { cause });
  }
}

/** Another transaction holds a message for longer than a read waits. Only on SQL Server without READ_COMMITTED_SNAPSHOT. */
export class RowLockedError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_ROW_LOCKED";
  override readonly code = RowLockedError.code;
  override readonly name = "RowLockedError";
}

/** The database has no oncebox schema, or an older one than this version of the package needs. */
export class SchemaMissingError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_SCHEMA_MISSING";
  override readonly code = SchemaMissingError.code;
  override readonly name = "SchemaMissingError";
}

/** The database user has no right to do this. */
export class PermissionDeniedError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_PERMISSION_DENIED";
  override readonly code = PermissionDeniedError.code;
  override readonly name = "PermissionDeniedError";
}

/** `data` was read of a message whose payload is not JSON. No retry can help. */
export class PayloadNotJsonError extends InvalidOperationError {
  static override readonly code = "ONCEBOX_PAYLOAD_NOT_JSON";
  override readonly code = PayloadNotJsonError.code;
  override readonly name = "PayloadNotJsonError";
}
