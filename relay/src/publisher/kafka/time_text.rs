//! A time as RFC 3339 text with microseconds, into a buffer on the stack: it is written for every
//! record, and a general formatter costs more than the header that it fills.

/// Bytes of `2024-02-29T23:59:59.999999Z`.
pub(super) const LENGTH: usize = 27;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// `None` outside the years 0 to 9999: RFC 3339 has four digits for a year.
pub(super) fn rfc3339(since_epoch_us: i64, buffer: &mut [u8; LENGTH]) -> Option<&str> {
    let seconds = since_epoch_us.div_euclid(MICROS_PER_SECOND);
    let (year, month, day) = civil(seconds.div_euclid(SECONDS_PER_DAY));
    if !(0..=9999).contains(&year) {
        return None;
    }
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    buffer.copy_from_slice(b"0000-00-00T00:00:00.000000Z");
    digits(&mut buffer[0..4], year);
    digits(&mut buffer[5..7], month);
    digits(&mut buffer[8..10], day);
    digits(&mut buffer[11..13], second / 3600);
    digits(&mut buffer[14..16], second / 60 % 60);
    digits(&mut buffer[17..19], second % 60);
    digits(&mut buffer[20..26], since_epoch_us.rem_euclid(MICROS_PER_SECOND));
    std::str::from_utf8(buffer).ok()
}

/// Fills `field` from the right with the digits of a number that is not negative.
fn digits(field: &mut [u8], number: i64) {
    let mut rest = number.unsigned_abs() as u32;
    for byte in field.iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Year, month and day of a day number of the proleptic Gregorian calendar, day 0 being 1970-01-01.
/// Years are counted from March, so that the leap day is a year's last; 400 years are 146,097 days.
fn civil(day: i64) -> (i64, i64, i64) {
    let from_0000_03_01 = day + 719_468;
    let era = from_0000_03_01.div_euclid(146_097);
    let of_era = from_0000_03_01.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use time::macros::format_description;

    use super::*;

    fn text(us: i64) -> Option<String> {
        rfc3339(us, &mut [0; LENGTH]).map(str::to_owned)
    }

    #[test]
    fn known_instants() {
        assert_eq!(text(0).as_deref(), Some("1970-01-01T00:00:00.000000Z"));
        assert_eq!(text(-1).as_deref(), Some("1969-12-31T23:59:59.999999Z"));
        assert_eq!(text(1_709_251_199_999_999).as_deref(), Some("2024-02-29T23:59:59.999999Z"));
        assert_eq!(text(253_402_300_799_999_999).as_deref(), Some("9999-12-31T23:59:59.999999Z"));
    }

    #[test]
    fn outside_of_four_digits_there_is_no_text() {
        for us in [253_402_300_800_000_000, -62_167_219_200_000_001, i64::MAX, i64::MIN] {
            assert_eq!(text(us), None, "{us}");
        }
        assert_eq!(text(-62_167_219_200_000_000).as_deref(), Some("0000-01-01T00:00:00.000000Z"));
    }

    /// An odd stride through the four centuries that the calendar repeats after, against another implementation.
    #[test]
    fn agrees_with_the_calendar_of_another_crate() {
        let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
        let mut us: i64 = -6_000_000_000_000_000;
        while us < 7_000_000_000_000_000 {
            let expected =
                OffsetDateTime::from_unix_timestamp_nanos(i128::from(us) * 1000).unwrap().format(format).unwrap();
            assert_eq!(text(us), Some(expected), "{us}");
            us += 86_399_999_983 * 7;
        }
    }
}
