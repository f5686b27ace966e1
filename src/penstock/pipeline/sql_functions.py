"""Names in SQL conditions: the functions that give the same for the same row wherever they are evaluated, and those that do not.

`STEADY` is a list of what may be evaluated for an archive that somebody else may have written: no function in it reads a file, a setting or
a clock, calls code by its name, or makes a type from a text.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


STEADY = _names(
    """
    abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp expm1 factorial
    floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint round sec sign
    signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex width_bucket bit_count bit_get getbit
    shiftleft shiftright shiftrightunsigned array array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_union
    arrays_overlap arrays_zip flatten get sequence slice sort_array cardinality concat element_at reverse size try_element_at
    between coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull bigint binary boolean cast date decimal double float
    int smallint string time timestamp tinyint add_months convert_timezone date_add date_diff date_format date_from_unix_date
    date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime
    from_utc_timestamp hour last_day make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
    make_timestamp_ntz make_ym_interval minute month monthname months_between next_day quarter second time_diff time_trunc
    timestamp_micros timestamp_millis timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
    to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz
    try_to_date try_to_time try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year
    crc32 hash md5 sha sha1 sha2 xxhash64 get_json_object json_array_length json_object_keys to_json aggregate array_sort exists
    filter forall map_filter map_zip_with reduce transform transform_keys transform_values zip_with map map_concat map_contains_key
    map_entries map_from_arrays map_from_entries map_keys map_values str_to_map named_struct struct and equal_null ilike in isnan
    isnotnull isnull like not or regexp regexp_like rlike typeof ascii base64 bit_length btrim char char_length character_length chr
    collate collation concat_ws contains decode elt encode endswith find_in_set format_number format_string from_base32 initcap
    instr is_valid_utf8 lcase left len length levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length
    overlay position printf quote regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat
    replace right rpad rtrim sentences soundex space split split_part startswith substr substring substring_index to_base32
    to_binary to_char to_number to_varchar translate trim try_to_binary try_to_number ucase unbase64 upper parse_url try_parse_url
    try_url_decode url_decode url_encode is_variant_null parse_json try_parse_json
    """
)
RANDOM = _names(
    """
    rand randn random randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_length input_file_block_start reflect java_method try_reflect aes_encrypt
    """
)
"""Functions that give something else when a batch is played again."""
PASSING = _names(
    """
    curdate current_catalog current_database current_date current_path current_schema current_time current_timestamp
    current_timezone current_user localtime localtimestamp now session_user user version
    """
)
"""Functions that give something else when an archive is settled: later, elsewhere, by somebody else."""
NEEDS_ARGUMENT = frozenset({"unix_timestamp", "to_unix_timestamp"})
"""Functions that give the time of now where they have no argument."""
MOMENTS = ("now", "today", "tomorrow", "yesterday")
"""Texts that are times of now where a date or timestamp is wanted."""
TIMELY = frozenset(
    {"date", "timestamp", "to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz", "try_to_date", "try_to_timestamp"}
)
"""Functions that make a time of a text."""

NODES = _names(
    """
    Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Collate Concat CreateNamedStruct Divide EqualNullSafe
    EqualTo GreaterThan GreaterThanOrEqual ILike In IntegralDivide IsNotNull IsNull LambdaFunction LessThan LessThanOrEqual Like
    LikeAll LikeAny Literal Lower Multiply NamedArgumentExpression Not NotLikeAll NotLikeAny Or Overlay RLike Remainder
    SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned StringLocate StringTrim StringTrimBoth StringTrimLeft
    StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive UnresolvedAttribute UnresolvedCollation
    UnresolvedExtractValue UnresolvedFunction UnresolvedNamedLambdaVariable UnresolvedStar Upper
    """
)
"""What Spark's parser makes of operators and of SQL's own forms of functions; a subquery is none of these."""
KEYWORDS = _names(
    """
    and any array as between bigint binary boolean both byte case cast day days dec decimal distinct div double else end escape
    exists false float for from hour hours ilike in int integer interval is leading like long minute minutes month months not null
    or placing real regexp rlike second seconds short smallint some string struct then timestamp timestamp_ltz timestamp_ntz tinyint
    to trailing true try_cast when year years
    """
)
"""Words of expressions that are neither columns nor functions, where no parser is at hand; none begins a subquery."""
