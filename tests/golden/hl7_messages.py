"""HL7 v2 messages of the trigger events A01, A03 and A08 for tests and for the example in ``examples/hl7v2``."""

from __future__ import annotations

CODES = {
    "E11.9": "Type 2 diabetes mellitus without complications",
    "I10": "Essential (primary) hypertension",
    "I21.4": "Non-ST elevation (NSTEMI) myocardial infarction",
    "J18.9": "Pneumonia, unspecified organism",
    "N17.9": "Acute kidney failure, unspecified",
    "I50.9": "Heart failure, unspecified",
    "F32.9": "Major depressive disorder, single episode, unspecified",
    "A41.9": "Sepsis, unspecified organism",
}


def message(k: int, end: str = "\r") -> str:
    """Return a message of patient ``k % 40`` with one to three diagnoses and a procedure."""
    event = ("A01", "A08", "A03")[k % 3]
    time = f"202401{1 + k % 28:02}{k % 24:02}1500"
    patient = k % 40
    listed = [list(CODES.items())[(k * 5 + j * 3) % 8] for j in range(1 + k % 3)]
    structure = "ADT_A03" if event == "A03" else "ADT_A01"
    segments = [
        f"MSH|^~\\&|ADT|CLINIC|MASKER|RESEARCH|{time}||ADT^{event}^{structure}|M{k:05}|P|2.5",
        f"EVN|{event}|{time}",
        f"PID|1||{4711 + patient}^^^CLINIC^MR~{9000 + patient}^^^INSURER^NI||Example^Ada^{patient}"
        f"||19{30 + patient}0704|F|||{patient} Example Street^^Munich^^80331^DE||+49 89 {1000 + patient}",
        f"PV1|1|I|Cardiology^12^B|E|||0815^Doctor^Dora|||MED|||||||||V{k:06}|||||||||||||||||||||||||{time}",
        *(f"DG1|{j}||{code}^{label}^I10|free text {k}|{time}|A" for j, (code, label) in enumerate(listed, 1)),
        "PR1|1||5-470.11^Appendectomy^OPS|free text|" + time,
    ]
    return "".join(segment + end for segment in segments)


def framed(text: str) -> bytes:
    """Return a message in the frame of MLLP."""
    return b"\x0b" + text.encode() + b"\x1c\r"
