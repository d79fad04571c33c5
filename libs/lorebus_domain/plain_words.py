"""The words that an error text keeps when everything that may belong to a record is taken out of it.

The rule that must not break: no word here is a first name or a place. What a customer's name looks like cannot be
told from its letters, but a list of what is harmless can be read and checked. A few words are surnames as well
(price, page), which is why `error_template` takes a word with a capital only where a message begins.
"""

from typing import Final

_LITTLE_WORDS: Final = """
a about above across after again against all allowed almost along already also although always an and another any
anyone anything are around as at away back be because been before behind being below beneath beside besides between
beyond both but by can cannot could did do does doing done down during each either else enough even ever every
everything except few first for from further get gets getting give given gives giving go goes going gone got had has
have having here how however if in inside instead into is it its itself last later least less like made make makes
making many maybe me meanwhile might more most much must my near neither never next no nobody none nor not nothing
now of off often on once one only onto or other others otherwise our out outside over own per perhaps please put
quite rather same second several shall she he should since so some someone something soon still such than that the
their them then there therefore these they thing things third this those though through throughout thus to together
too toward twice two three under unless until up upon us used using very via was we well were what whatever when
whenever where whether which while who whole whose why will with within without would yet you your yours yourself
isn't aren't wasn't weren't doesn't don't didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't
"""

_WHAT_GOES_WRONG: Final = """
abnormal abort aborted absent accept accepted access accessible active add added ambiguous apply applied attempt
attempted attempts authenticate authenticated authentication authorization authorize authorized available bad banned
blank block blocked broken busy cancel canceled cancelled change changed changes check checked choose chosen
circular close closed collision commit committed compatible complete completed conflict conflicting conflicts
connect connected connecting connection contain contained containing contains convert converted corrupt corrupted
crash crashed create created damaged deadlock declined decode decoding decrease decreased delete deleted denied
deny depleted deprecated detached differ different differs disable disabled disallowed disconnect disconnected
does duplicate duplicated duplicates eligible empty enable enabled encode encoding ended entered equal equals error
errors exceed exceeded exceeding exceeds exception exclude excluded exclusive exhausted exist existing exists exit
exited expect expected expects expire expired expires extra fail failed failing fails failure failures fatal fault
faults finish finished fix fixed forbidden force forced found full greater gone grow guess hidden higher
illegal immutable impossible include included includes incompatible incomplete inconsistent incorrect ineligible
inactive insert inserted insufficient interrupted introduce introduced introduces invalid issue issues know known
lack lacks large larger late left limit limited limits load loaded loading lock locked long longer lost low lower
malformed match matched matches matching maximum mean means met minimum mismatch missing mistake modified modify
mounted multiple need needed needs negative non nonexistent null occurred offline old online open opened
operate outdated overflow overlap overlapping overlaps overloaded overwrite owned parse parsed parsing
partial pass passed pending permission permissions permit permitted positive possible prevent prevented
problem problems process processed processing prohibited protected provide provided provides quit raise raised ran
range reach reached read readable receive received recognise recognised recognize recognized recover refuse
refused reject rejected released remain remaining remains remove removed rename renamed repeat repeated replace
replaced require required requires reset resolve resolved restart restarted restricted retried retry retrying return
returned returns revoked roll rolled rollback run running runs save saved send sent set short should shut shutdown
similar skip skipped slow small smaller specified specify split start started starting stop stopped strict submit
submitted succeed succeeded success successful successfully sufficient supply supplied support supported supports
suspended switch terminated throttled throw thrown timeout timed times top transient tried trouble try trying
unable unauthorized unauthenticated unavailable unbalanced unchanged unclosed undefined unexpected unhandled
unique unknown unlock unmatched unpaid unprocessable unreachable unreadable unrecognized unresolved unsafe
unsuccessful unsupported unterminated untrusted unusable unused update updated updates upgrade upgraded used valid
validate validated validation verified verify violate violated violates violation wait waited waiting warning warnings
went work worked working works write writable writing written wrong zero
"""

_COMPUTING: Final = """
action address admin administrator agent agents alias allocate allocation answer api app application archive
argument arguments array arrays assertion assign assigned assignment attribute attributes backend background backup
base batch binary bit bits body boolean branch browser buffer bug build bytes byte cache call called caller calls
case cell channel char character characters child chunk class classes client clients cluster code codes column
columns command commands comment comments compile compiled compiler component condition config configuration
configured connections console constant constraint constraints container containers content contents context
convention copy core count counter credential credentials criteria cursor data database databases dataset datasets
date dates day days debug declaration declared default defaults definition dependencies dependency deploy deployed
deployment depth destination device dictionary digit digits dimension dimensions directories directory disk
document documents domain download driver edit edits editor element elements encrypted end endpoint engine entity
entries entry environment event events execute executable executed execution expression expressions extension
external feature features field fields file files filename filter filters flag flags float folder folders following
foreign form format formats fragment frame framework function functions gateway generate generated generic group
groups handle handler hash header headers heap history hook host hour hours html http id identifier identifiers
identity image images implementation implemented import imported imports inclusive indent indentation index indexes
initial initialize input inputs install installation installed installing instance instances integer integers
interface internal interpreter interval item items iterable job jobs json key keys keyword keywords kind label
language layer length letter letters level levels libraries library line lines link links list listed listen lists
literal local location log logged login logs loop machine manifest manually map mapping mask memory merge merged
message messages metadata method methods migration minute minutes mode model models module modules month name named
names namespace nested network new node nodes notice number numbers numeric object objects offset operand operation
operations operator option optional options order ordering original output outputs owner package packages page pages
parameter parameters parent parser part parts patch patches path paths pattern patterns payload period pipe pixel
place platform plugin point pointer policy pool port ports position prefix previous primary privilege program
project projects prompt properties property protocol proxy public pull push queries query queue quota quotes rate
rates raw record records recursion redirect reference references region registered registry regular relation
relative release remote report repository request requested requests reservation resource resources response
responses result results role root route row rows rule rules runtime sample schema scope script scripts section
security segment select selected selection sequence server servers service services session sessions setting
settings setup shape sheet shell sign signal signature size sizes slot socket software sort source space stack stage
standard state statement states static status step steps storage store stored stream string strings structure style
suffix sum suite symbol synchronized syntax system systems tab table tables tag tags target task tasks template
temporary terminal test tests text thread threads tick tier time timestamp times title token tokens tool tools
topic trace transaction transactions transfer transferred transform tree trigger tuple type types unit units upload
uploaded url user username users utility value values variable variables vector version versions view volume window
wildcard word words worker workers workspace year years zone
"""

_TRADE: Final = """
account accounts aircraft airline airport allowance amount amounts appointment approval approve approved arrival
article authority bag baggage bags balance balances bank basket benefit billing book booked booking bookings business
buy buyer cabin calendar cancellation capacity card cards carrier cart cash category certificate certificates charge
charged charges checkout claim class combination company confirm confirmation confirmed contact contract cost costs
coupon courier credit currency customer customers debit deadline deal delay delayed deliver delivered delivery deposit
departure discount due duration early eligibility email employee exchange exchanged expense fare fares fee fees flight
flights free fund funds gift goods guest guests holder hotel hours human individual insurance insured inventory invoice
invoices itinerary journey late leg loan luggage manager meal meeting member members membership merchant money order
ordered orders paid partner passenger passengers past pay payable payer paying payment payments pending period
phone plan plans policies postal premium price prices pricing product products profile promotion proposed provider
purchase purchased quantity quote reason receipt recipient refund refundable refunded refunds renew renewal rent
reservations reserve reserved restaurant return returned review room rooms sale schedule scheduled seat seats sell
seller shipment shipped shipping shop staff stock subscription supplier support tax taxes team ticket tickets
total totals trade travel traveler trip trips vendor verification visit voucher wallet warehouse warranty
"""

PLAIN_WORDS: Final = frozenset(f"{_LITTLE_WORDS}{_WHAT_GOES_WRONG}{_COMPUTING}{_TRADE}".split())
