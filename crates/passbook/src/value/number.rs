//! Numbers as Postgres' `numeric` prints them.

use serde::Serialize;

/// Digits that `numeric` holds before the decimal point: 32,768 groups of four.
const MAX_WHOLE: usize = 131_072;
/// Digits that `numeric` holds after the decimal point: the scale has 14 bits.
const MAX_SCALE: usize = 16_383;
/// From here on `numeric` refuses an exponent whatever the digits are.
const MAX_EXPONENT: i64 = (i32::MAX / 2) as i64;

/// A number that `numeric` cannot hold.
#[derive(Debug)]
pub(super) struct OutOfRange;

/// Appends a JSON number in the spelling of `numeric`: the exponent written out, the digits after
/// the point kept, zero without a sign. `number` follows the grammar of JSON.
pub(super) fn push(out: &mut String, number: &str) -> Result<(), OutOfRange> {
    let (negative, unsigned) = match number.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, number),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().map_err(|_| OutOfRange)?),
        None => (unsigned, 0_i64),
    };
    if exponent.abs() >= MAX_EXPONENT {
        return Err(OutOfRange);
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let sign = if negative && mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9')) {
        "-"
    } else {
        ""
    };
    if exponent == 0 {
        if whole.len() > MAX_WHOLE || fraction.len() > MAX_SCALE {
            return Err(OutOfRange);
        }
        out.push_str(sign);
        out.push_str(mantissa);
        return Ok(());
    }
    out.push_str(sign);
    shifted(out, whole, fraction, exponent)
}

/// Appends the digits of `whole.fraction` with the point moved by `exponent` places.
fn shifted(out: &mut String, whole: &str, fraction: &str, exponent: i64) -> Result<(), OutOfRange> {
    let length = |digits: &str| i64::try_from(digits.len()).map_err(|_| OutOfRange);
    let scale = usize::try_from((length(fraction)? - exponent).max(0)).map_err(|_| OutOfRange)?;
    if scale > MAX_SCALE {
        return Err(OutOfRange);
    }
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    // Where the point stands, counted from the first digit that is not a zero.
    let point = length(digits)? - length(fraction)? + exponent;

    match usize::try_from(point) {
        Ok(point) if point > 0 && !digits.is_empty() => {
            if point > MAX_WHOLE {
                return Err(OutOfRange);
            }
            let given = point.min(digits.len());
            out.push_str(&digits[..given]);
            out.extend(std::iter::repeat_n('0', point - given));
            if scale > 0 {
                out.push('.');
                out.push_str(&digits[given..]);
            }
        }
        _ => {
            out.push('0');
            if scale > 0 {
                out.push('.');
                let given = digits.len().min(scale);
                out.extend(std::iter::repeat_n('0', scale - given));
                out.push_str(digits);
            }
        }
    }
    Ok(())
}

/// Appends a finite float by the digits of `serde_json`: the fewest that read back as the same one.
pub(super) fn push_f64(out: &mut String, value: f64) {
    push_float(out, value, value);
}

/// As [`push_f64`], for the narrower float.
pub(super) fn push_f32(out: &mut String, value: f32) {
    let start = out.len();
    push_float(out, value, f64::from(value));
    // A reader that buffers (flattened, untagged or internally tagged types) parses an `f64` and
    // narrows it. Rounding twice can miss: 7.038531e-26 does. Then the digits of the `f64` are due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::float_cmp,
        reason = "the reader's own cast, compared exactly"
    )]
    let exact = (out[start..].parse::<f64>()).is_ok_and(|read| read as f32 == value);
    if !exact {
        out.truncate(start);
        push_f64(out, f64::from(value));
    }
}

fn push_float<F: Serialize>(out: &mut String, value: F, wide: f64) {
    if wide == 0.0 {
        // Not `-0.0`: `numeric` has no negative zero, and every store must agree.
        out.push_str("0.0");
        return;
    }
    with_digits(&value, |digits| {
        if digits.contains('e') {
            push(out, digits).expect("a float has at most 309 digits before the point and 342 after it");
            // An exponent written out leaves a whole number. Where that could be taken for an integer
            // of 64 bits it gets a point, so that a reader of any type (an untagged enum) sees a float.
            if wide.abs() <= 18_446_744_073_709_551_616.0 && wide.fract() == 0.0 {
                out.push_str(".0");
            }
        } else {
            out.push_str(digits);
        }
    });
}

/// Appends an integer.
pub(super) fn push_integer<I: Serialize>(out: &mut String, value: I) {
    with_digits(&value, |digits| out.push_str(digits));
}

/// Hands on what `serde_json` writes for a number of Rust, without allocating it.
fn with_digits<N: Serialize>(number: &N, use_them: impl FnOnce(&str)) {
    let mut digits = [0; 40];
    let mut free = &mut digits[..];
    serde_json::to_writer(&mut free, number).expect("an `i128` has at most 40 characters");
    let length = 40 - free.len();
    use_them(str::from_utf8(&digits[..length]).expect("a number is written in ASCII"));
}
