"""Words that people and tools use for the same thing.

One line a sense, in English and Korean. A related word counts for less than the word
itself, so that a tool which says what was asked comes before one that says it otherwise.
"""

from __future__ import annotations

from collections import defaultdict

from agents.surface.search.words import stem, terms

_SENSES = """
get fetch retrieve obtain read load 조회 가져 읽기 불러
show view display list see print 보여 알려 확인 조회 목록
find search lookup query discover look 검색 찾아 찾기 조회
create add make new generate build insert register write append 추가 생성 만들 등록 작성
delete remove clear cancel drop erase unsubscribe 삭제 제거 취소 지워
update edit modify change set alter adjust 수정 변경 바꿔 편집 설정
send post publish share submit 보내 전송 공유 발송
open launch start run execute 실행 시작 열기 켜줘
stop end kill terminate abort close cancel 중지 종료 중단 꺼줘
copy duplicate clone 복사 복제
move rename transfer 이동 옮겨
save store persist stash 저장 보관
file document path 파일 문서
folder directory dir 폴더 디렉터리
picture image photo screenshot 사진 이미지 그림
movie film cinema 영화
video clip movie 동영상 영상 비디오
calculate compute calculator math arithmetic 계산
convert translate transform 변환 번역
message mail email sms 메시지 메일 이메일 문자
definition meaning dictionary define 사전 의미
website web page site url link browser internet online 웹사이트 인터넷 웹페이지
buy purchase order shop shopping product 구매 주문 쇼핑 상품
book reserve reservation appointment schedule booking 예약
price cost quote fee 가격 비용 요금 시세 얼마
stock share ticker equity 주식 주가 종목
weather forecast temperature climate 날씨 기온 기상
restaurant food meal dining 식당 맛집 음식
recipe cook cooking dish 요리 레시피
job career employment hiring 채용 취업
song music track audio 음악 노래
trip travel tour vacation itinerary 여행 관광
flight airline airport plane 항공 비행 공항
hotel accommodation lodging stay 호텔 숙소 숙박
place location venue address map nearby 장소 위치 근처 주변 주소 지도
route direction navigation 경로 길찾기
news headline article 뉴스 기사
paper article publication research study 논문 연구
summary summarize abstract 요약
chart graph plot diagram 차트 그래프
repo repository 저장소
compress archive zip 압축
check verify validate test inspect 확인 검사 검증
plan schedule agenda calendar event 일정 캘린더 스케줄 계획
date day time when today 날짜 시간 언제 오늘 며칠
remind reminder alarm alert 알림 알람
game play 게임
health medical doctor hospital patient 건강 병원 의료
money finance financial currency bank 금융 은행 환율 통화
lawyer legal law 법률 변호사
learn course education 교육 강의 학습
review rating opinion feedback 후기 리뷰 평가 평점
house home property estate 부동산 아파트 주택
car vehicle auto 자동차 차량
issue ticket 이슈 티켓
browser 브라우저
click 클릭
database db 데이터베이스
table 테이블 표
server 서버
container 컨테이너
deploy deployment 배포
branch 브랜치
commit 커밋
code 코드
log 로그
project 프로젝트
channel 채널
comment reply 댓글 답글
account 계정
password 비밀번호 암호
payment pay 결제
customer client 고객
text 텍스트 문자열
page 페이지
user person people member contact 사용자 회원 연락처
"""


def _gather() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for line in _SENSES.strip().splitlines():
        words = {
            stem(word) if word.isascii() else terms(word)[-1]: None
            for word in line.split()
        }
        for word in words:
            found[word].update(words)
    return {
        word: tuple(other for other in others if other != word)
        for word, others in found.items()
    }


_RELATED = _gather()


def related(term: str) -> tuple[str, ...]:
    """Other terms for the same thing, in a fixed order; none for most."""
    return _RELATED.get(term, ())
